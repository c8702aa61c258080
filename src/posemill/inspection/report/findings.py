"""The sections of a report that are made of numbers: presence, strips, motion, smoothing."""

from __future__ import annotations

import numpy as np

from posemill.clips.smoothing import METHODS, USUAL_FPS, smooth
from posemill.inspection.motion import JUMP_FLOOR, JUMP_MADS, SURE_SCORE
from posemill.inspection.quality import COUNTED, ClipQuality, RunQuality
from posemill.inspection.report import page
from posemill.inspection.summary import percent
from posemill.messages import Message, join
from posemill.records import FloatArray, PoseClip
from posemill.skeletons.palette import GREY, part_colour, part_label

_HOW_TO_READ_STRIPS = Message(
    "Each clip runs from left (first frame) to right (last); a part is coloured while it was "
    "found and grey while it was missing. Where one column stands for several frames, a paler "
    "colour means that only some of them have it."
)

_WORDS = {
    Message("Presence"): "a part is there when at least one of its points was found.",
    Message("Jump"): (
        "a fifth of the part's points moved by more than {jump_floor:g} shoulder widths "
        "in 1/25 s, and far more than is usual for it in this clip (the median and "
        "{jump_mads:g} scaled median deviations). Body points with a score below "
        "{sure_score:g} do not count. Several in a row are one jump."
    ),
    Message("Left/right suspect"): (
        "from one frame to the next, both hands (or both sides of the body) are nearer to "
        "where the other one was; or a hand begins at the body's other wrist."
    ),
    Message("Both hands on one spot"): "the points of both hands lie on one another.",
    Message("Frozen frame"): "every part found has exactly the numbers of the frame before.",
    Message("Badness"): (
        "1 - product of (1 - weight x amount) over: body missing (weight 1), face missing "
        "(0.6), neither hand found (0.3), jumps of a part (0.6, full at one in twenty "
        "frames), suspects and doubled hands (0.7 each, full at one in ten), frozen "
        "frames (0.4), face and hands outside of the picture (0.4). It ranks clips; it is "
        "not an error rate."
    ),
    Message("Loose pictures"): (
        "frames of different sizes, or with people at another place in every one, are not "
        "compared with one another."
    ),
}
_COLOURS = dict(zip(METHODS, map(part_colour, ("left_hand", "right_hand", "face")), strict=True))
_LEAST_FRAMES, _SHOWN_FRAMES = 12, 60
_MOST_LAG = 10  # frames


def frames_text(number: int) -> Message:
    """Return a number of frames in words."""
    return Message("{num_frames:,|frame|frames}", num_frames=number)


def presence_section(quality: RunQuality) -> str:
    """Return how often each part was found, by split."""
    groups: list[tuple[str, list[page.Bar]]] = []
    for split, totals in quality.splits.items():
        frames = frames_text(totals.num_frames)
        groups.append((Message("{split}  ({frames})", split=split, frames=frames), []))
        for name, part in totals.parts.items():
            share = part["num_present"] / max(1, totals.num_frames)
            words = page.badge(share, percent(share))
            groups[-1][1].append((part_label(name), part_colour(name), share, words))
    return page.section(
        Message("Presence"),
        page.bar_chart(groups, label=Message("Share of frames with each part")),
        remark=Message("Share of frames in which at least one point of the part was found."),
    )


def strips_section(quality: RunQuality) -> str:
    """Return, for the worst clips, when each part was there."""
    cells: list[str] = []
    for clip in quality.worst:
        strips = [(part.name, part.strip) for part in clip.parts]
        label = Message("presence over time in {clip_id}", clip_id=clip.clip_id)
        cells.append(
            f"<span>{page.text(clip.clip_id or Message('(no name)'))}</span>"
            f"{page.strip_chart(strips, label=label)}"
            f'<span class="quiet">{page.text(clip.split)}, '
            f"{page.text(frames_text(clip.num_frames))}</span>"
        )
    names = dict.fromkeys(part.name for clip in quality.worst for part in clip.parts)
    num_shown, num_clips = len(quality.worst), quality.num_clips
    template = "All {num_shown} clips, the worst first."
    if num_shown < num_clips:
        template = "The {num_shown} worst of {num_clips:,} clips."
    which_clips = Message(template, num_shown=num_shown, num_clips=num_clips)
    return page.section(
        Message("Missing over time"),
        page.colour_key([(part_label(name), part_colour(name)) for name in names]),
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
    groups: dict[str, list[page.Bar]] = {split: [] for split in quality.splits}
    for (split, name), rate in rates.items():
        template = "{rate:.2f} ({num_jumps:,} in {clips_with_jumps:,} clips)"
        words = Message(template, **quality.splits[split].parts[name], rate=1000 * rate)
        bar = part_label(name), part_colour(name), rate / longest, page.text(words)
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
    return page.section(
        Message("Jumps, swaps and frozen frames"),
        page.bar_chart(
            zip(headings, groups.values(), strict=True), label=Message("Jumps in 1,000 frames")
        ),
        page.table(columns, rows),
        remark=Message("A suspect is a frame to look at, not a proven fault."),
    )


def method_section() -> str:
    """Return what the words of the report mean."""
    limits = {"jump_floor": JUMP_FLOOR, "jump_mads": JUMP_MADS, "sure_score": SURE_SCORE}
    lines = [
        f"<p><b>{page.text(name)}</b>: {page.text(Message(words, **limits))}</p>"
        for name, words in _WORDS.items()
    ]
    return page.section(Message("What the words mean"), *lines)


def clip_to_smooth(quality: RunQuality) -> ClipQuality | None:
    """Return the longest of the kept clips that can be smoothed; None where none can."""
    clips = (
        clip
        for clip in quality.worst
        if clip.is_continuous and clip.num_frames >= _LEAST_FRAMES
        if any(part.num_present for part in clip.parts)
    )
    return max(clips, key=lambda clip: clip.num_frames, default=None)


def smoothing_section(clip: PoseClip) -> str:
    """Return jitter and lag of each filter on a clip, and one point of it before and after."""
    sizes = np.maximum(clip.sizes_wh, 1).astype(np.float32)[:, None]
    raw = clip.points[..., :2] * sizes
    ways = {name: smooth(clip, name).points[..., :2] * sizes for name in METHODS}
    before, fps = jitter_of(raw), clip.fps or USUAL_FPS
    rows: list[tuple[str, float, str, str]] = [("none", before, "100%", "-")]
    for name, points in ways.items():
        jitter = jitter_of(points)
        share = f"{jitter / before:.0%}" if before else "-"
        rows.append((name, jitter, share, f"{1000 * lag_of(raw, points) / fps:.0f} ms"))
    # Point and axis of what moves most, among points that are nearly always found.
    share_found = np.isfinite(raw[..., 0]).mean(axis=0)
    known = np.where(np.isfinite(raw), raw, np.nan_to_num(raw).mean(axis=0))
    spread = known.std(axis=0) * (share_found >= 0.9 * share_found.max())[:, None]
    point, axis = np.unravel_index(int(spread.argmax()), spread.shape)
    # Around the quickest change.
    middle = int(np.nan_to_num(np.abs(np.diff(raw[:, point, axis]))).argmax())
    start = max(0, min(middle - _SHOWN_FRAMES // 2, len(raw) - _SHOWN_FRAMES))
    shown = slice(start, start + _SHOWN_FRAMES)
    lines = [("none", GREY, raw[shown, point, axis])]
    lines += [(name, _COLOURS[name], points[shown, point, axis]) for name, points in ways.items()]
    template = "{axis} of {point} in pixels, frames {first} to {last}"
    name, (first, last) = clip.skeleton.point_names[point], clip.frame_indices[shown][[0, -1]]
    words = Message(template, axis="xy"[axis], point=name, first=first, last=last)
    columns = [Message("filter"), Message("jitter, px"), Message("jitter left"), Message("lag")]
    numbers, key = page.table(columns, rows), page.colour_key([line[:2] for line in lines])
    chart = page.line_chart([line[1:] for line in lines], label=words)
    return page.section(
        Message("What smoothing does"),
        f'<div class="row"><div>{numbers}{key}</div><div>{chart}</div></div>',
        remark=Message(
            "Clip {clip_id}, smoothed in three ways. Jitter is the mean change of a point's speed "
            "from frame to frame; lag is how late the smoothed points come. one-euro looks back "
            "only, the others look ahead too. Choose one by {--smooth} when you prepare or export.",
            clip_id=clip.clip_id,
        ),
    )


def jitter_of(points: FloatArray) -> float:
    """Return the mean length of the second difference along time, in pixels; 0 without any.

    Points are `(frames, keypoints, 2)` in pixels, NaN where missing.
    """
    changes = np.linalg.norm(np.diff(points, 2, axis=0), axis=-1)
    changes = changes[np.isfinite(changes)]
    return float(changes.mean()) if changes.size else 0.0


def lag_of(raw: FloatArray, smoothed: FloatArray) -> float:
    """Return by how many frames the smoothed points come late: the shift that fits them best.

    Both are `(frames, keypoints, 2)` in pixels, NaN where missing.
    """
    errors = []
    for shift in range(min(_MOST_LAG, len(raw) - 1) + 1):
        apart = (smoothed[shift:] - raw[: len(raw) - shift]) ** 2
        errors.append(float(np.nanmean(apart)) if np.isfinite(apart).any() else np.inf)
    best = int(np.argmin(errors))
    if not 0 < best < len(errors) - 1:
        return float(best)
    low, middle, high = errors[best - 1 : best + 2]
    bend = low - 2 * middle + high  # of the parabola through the three
    return best + (0.5 * (low - high) / bend if bend > 0 else 0.0)
