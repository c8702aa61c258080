"""The sections of a report that are made of numbers: presence, strips, motion, method."""

from __future__ import annotations

from posemill.inspection.motion import JUMP_FLOOR, JUMP_MADS, SURE_SCORE
from posemill.inspection.quality import COUNTED, RunQuality
from posemill.inspection.report.page import (
    Bar,
    badge,
    bar_chart,
    colour_key,
    section,
    strip_chart,
    table,
    text,
)
from posemill.inspection.summary import percent
from posemill.messages import Message, join
from posemill.skeletons.palette import part_colour, part_label

_HOW_TO_READ_STRIPS = Message(
    "Each clip runs from left (first frame) to right (last); a part is coloured while it was "
    "found and grey while it was missing. Where one column stands for several frames, a paler "
    "colour means that only some of them have it."
)

_WORDS = (
    (Message("Presence"), Message("a part is there when at least one of its points was found.")),
    (
        Message("Jump"),
        Message(
            "a fifth of the part's points moved by more than {jump_floor:g} shoulder widths "
            "in 1/25 s, and far more than is usual for it in this clip (the median and "
            "{jump_mads:g} scaled median deviations). Body points with a score below "
            "{sure_score:g} do not count. Several in a row are one jump.",
            jump_floor=JUMP_FLOOR,
            jump_mads=JUMP_MADS,
            sure_score=SURE_SCORE,
        ),
    ),
    (
        Message("Left/right suspect"),
        Message(
            "from one frame to the next, both hands (or both sides of the body) are nearer to "
            "where the other one was; or a hand begins at the body's other wrist."
        ),
    ),
    (Message("Both hands on one spot"), Message("the points of both hands lie on one another.")),
    (
        Message("Frozen frame"),
        Message("every part found has exactly the numbers of the frame before."),
    ),
    (
        Message("Badness"),
        Message(
            "1 - product of (1 - weight x amount) over: body missing (weight 1), face missing "
            "(0.6), neither hand found (0.3), jumps of a part (0.6, full at one in twenty "
            "frames), suspects and doubled hands (0.7 each, full at one in ten), frozen "
            "frames (0.4), face and hands outside of the picture (0.4). It ranks clips; it is "
            "not an error rate."
        ),
    ),
    (
        Message("Loose pictures"),
        Message(
            "frames of different sizes, or with people at another place in every one, are not "
            "compared with one another."
        ),
    ),
)


def frames_text(number: int) -> Message:
    """Return a number of frames in words."""
    return Message("{num_frames:,|frame|frames}", num_frames=number)


def presence_section(quality: RunQuality) -> str:
    """Return how often each part was found, by split."""
    groups: list[tuple[str, list[Bar]]] = []
    for split, totals in quality.splits.items():
        frames = frames_text(totals.num_frames)
        groups.append((Message("{split}  ({frames})", split=split, frames=frames), []))
        for name, part in totals.parts.items():
            share = part["num_present"] / max(1, totals.num_frames)
            words = badge(share, percent(share))
            groups[-1][1].append((part_label(name), part_colour(name), share, words))
    return section(
        Message("Presence"),
        bar_chart(groups, label=Message("Share of frames with each part")),
        remark=Message("Share of frames in which at least one point of the part was found."),
    )


def strips_section(quality: RunQuality) -> str:
    """Return, for the worst clips, when each part was there."""
    cells: list[str] = []
    for clip in quality.worst:
        strips = [(part.name, part.strip) for part in clip.parts]
        label = Message("presence over time in {clip_id}", clip_id=clip.clip_id)
        cells.append(
            f"<span>{text(clip.clip_id or Message('(no name)'))}</span>"
            f"{strip_chart(strips, label=label)}"
            f'<span class="quiet">{text(clip.split)}, {text(frames_text(clip.num_frames))}</span>'
        )
    names = dict.fromkeys(part.name for clip in quality.worst for part in clip.parts)
    num_shown, num_clips = len(quality.worst), quality.num_clips
    template = "All {num_shown} clips, the worst first."
    if num_shown < num_clips:
        template = "The {num_shown} worst of {num_clips:,} clips."
    which_clips = Message(template, num_shown=num_shown, num_clips=num_clips)
    return section(
        Message("Missing over time"),
        colour_key([(part_label(name), part_colour(name)) for name in names]),
        f'<div class="strips">{"".join(cells)}</div>',
        remark=join(" ", [which_clips, _HOW_TO_READ_STRIPS]),
    )


def motion_section(quality: RunQuality) -> str:
    """Return jumps, suspected swaps, doubled hands and frozen frames."""
    rates = {
        (split, name): part["num_jumps"] / max(1, totals.num_frames)
        for split, totals in quality.splits.items()
        for name, part in totals.parts.items()
    }
    longest = max(rates.values(), default=0) or 1
    groups: dict[str, list[Bar]] = {split: [] for split in quality.splits}
    for (split, name), rate in rates.items():
        template = "{rate:.2f} ({num_jumps:,} in {clips_with_jumps:,} clips)"
        words = Message(template, **quality.splits[split].parts[name], rate=1000 * rate)
        bar = part_label(name), part_colour(name), rate / longest, text(words)
        groups[split].append(bar)
    headings = (Message("{split}: jumps in 1,000 frames", split=split) for split in groups)
    rows = [
        (split, *(count for name in COUNTED for count in (totals.sums[name], totals.clips[name])))
        for split, totals in quality.splits.items()
    ]
    columns = [
        "split",
        Message("left/right suspects"),
        Message("in clips"),
        Message("both hands on one spot"),
        Message("in clips"),
        Message("frozen frames"),
        Message("in clips"),
    ]
    return section(
        Message("Jumps, swaps and frozen frames"),
        bar_chart(
            zip(headings, groups.values(), strict=True), label=Message("Jumps in 1,000 frames")
        ),
        table(columns, rows),
        remark=Message("A suspect is a frame to look at, not a proven fault."),
    )


def method_section() -> str:
    """Return what the words of the report mean."""
    lines = "".join(f"<p><b>{text(name)}</b>: {text(words)}</p>" for name, words in _WORDS)
    return section(Message("What the words mean"), lines)
