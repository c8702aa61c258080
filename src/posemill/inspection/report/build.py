"""`posemill report`: one HTML file about a run, to be sent to anyone and opened anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from posemill import __version__
from posemill.clips.inputs import ClipInput
from posemill.inspection.drawing.frame_picture import draw, missing_parts
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.quality import ClipQuality, RunQuality, measure
from posemill.inspection.report import findings, page
from posemill.inspection.summary import flatten, group_failures
from posemill.messages import Message, join
from posemill.records import PoseClip
from posemill.runs.queries import Failure
from posemill.skeletons.palette import lack_words, part_label

WORST_SHOWN = 20
STRIPS_SHOWN = 60
FAILURES_SHOWN = 100
_PICTURES_PER_CLIP = 4


def measure_all(clips: Iterable[PoseClip]) -> RunQuality:
    """Return the quality of all clips, taken one at a time."""
    quality = RunQuality(keep=STRIPS_SHOWN)
    for clip in clips:
        quality.add(measure(clip))
    return quality


def write_report(
    material: ClipInput, quality: RunQuality, out: Path, *, originals: Originals
) -> None:
    """Write the report: one file, whole or not at all, of a few MB however long the run is."""
    facts, failures = material.facts(), material.failures()
    name = material.path.resolve().name or str(material.path)
    head, failed = _tiles(quality, material), _failures_section(material, failures)
    template = "As recorded with the data; this report was made by posemill {version}."
    remark = Message(template, version=__version__)
    table = page.table(["setting", "value"], flatten(facts))
    origin = page.section(Message("Where it comes from"), table, remark=remark)
    body = [head, failed, origin]
    if quality.num_clips:  # else everything failed, and there is nothing to measure
        longest = findings.clip_to_smooth(quality)
        clips = material.pick([] if longest is None else [(longest.split, longest.clip_id)])
        # Points that are smoothed, or no longer those of pictures, have nothing to show.
        raw = [clip for clip in clips if clip.smoothed == clip.normalized == "none"]
        body = [
            head,
            findings.presence_section(quality),
            findings.motion_section(quality),
            *map(findings.smoothing_section, raw),
            failed,
            _worst_section(material, quality, originals),
            findings.strips_section(quality),
            origin,
            findings.method_section(),
        ]
    about = [material.path.resolve(), Message(material.kind), facts.get("skeleton_name", "")]
    if "is_finished" in facts:
        unfinished = Message("not finished: what is here so far")
        about.append(Message("finished") if facts["is_finished"] else unfinished)
    page.write_page(out, "report", name, *body, subtitle=join(", ", about))


def telling_rows(clip: PoseClip, quality: ClipQuality) -> list[tuple[int, str]]:
    """Return the rows of a clip that show its faults best, with words; at most four, in order."""
    events: list[tuple[int, str]] = [
        (index, Message("left/right suspect")) for index in quality.swap_frames[:1]
    ]
    for part in quality.parts:
        words = Message("jump of {part_label}", part_label=part_label(part.name))
        events += [(index, words) for index in part.jump_frames[:1]]
    candidates: list[tuple[int, str]] = []
    for frame_index, reason in events:
        # A change is seen by the row before it: its number is not one less where rows are strides.
        row = int(np.searchsorted(clip.frame_indices, frame_index))
        candidates += [(row, reason), (row - 1, Message("just before"))]
    spread = np.linspace(0, len(clip) - 1, 2 * _PICTURES_PER_CLIP + 1).round().astype(int)
    chosen: dict[int, str] = {}
    for row, reason in [*candidates, *((row, "") for row in spread[1::2].tolist())]:
        if 0 <= row < len(clip) and len(chosen) < _PICTURES_PER_CLIP:
            chosen.setdefault(row, reason)
    return sorted(chosen.items())


def _tiles(quality: RunQuality, material: ClipInput) -> str:
    splits = quality.splits.values()
    return page.tiles(
        [
            (quality.num_clips, "clips"),
            (sum(s.num_frames for s in splits), "frames"),
            (sum(material.num_failed("clips").values()), Message("clips failed")),
            (sum(material.num_failed().values()), Message("frames failed")),
            (sum(p["num_jumps"] for s in splits for p in s.parts.values()), "jumps"),
            (sum(s.sums["num_swaps"] for s in splits), Message("left/right suspects")),
            (sum(s.sums["num_frozen"] for s in splits), Message("frozen frames")),
        ]
    )


def _worst_section(material: ClipInput, quality: RunQuality, originals: Originals) -> str:
    heading = Message("Worst clips")
    worst = {
        (clip.split, clip.clip_id): clip for clip in quality.worst[:WORST_SHOWN] if clip.reasons
    }
    if not worst:
        return page.section(heading, remark=Message("No clip has a fault that was looked for."))
    pictures = {}
    for clip in material.pick(worst):
        name = clip.split, clip.clip_id
        pictures[name] = _pictures(clip, worst[name], originals)
    blocks = []
    for name, about in worst.items():
        title = f"{page.badge(1 - about.badness, f'{about.badness:.2f}')} "
        title += page.text(about.clip_id or "(no name)")
        frames, reasons = findings.frames_text(about.num_frames), join("; ", about.reasons)
        template = "{split}, {frames}: {reasons}"
        words = Message(template, split=about.split, frames=frames, reasons=reasons)
        blocks.append(page.clip_block(f"<h3>{title}</h3>", words, pictures.get(name, "")))
    remark = Message(
        "The {num_worst} worst of {num_clips:,} clips. The number is the badness: 0 is nothing to "
        "say, 1 is nothing found; how it is made stands at the end.",
        num_worst=len(worst),
        num_clips=quality.num_clips,
    )
    return page.section(heading, *blocks, remark=remark)


def _pictures(clip: PoseClip, quality: ClipQuality, originals: Originals) -> str:
    words = dict(telling_rows(clip, quality))
    figures = []
    for row, frame in originals.frames(clip, list(words)):
        number = Message("frame {frame}", frame=clip.frame_indices[row])
        picture = draw(frame, clip, row, legend=False, min_long_side=480, line_scale=1.6)
        caption = join("; ", [number, words[row], lack_words(missing_parts(clip, row))])
        figures.append(page.figure(picture, caption))
    return "".join(figures)


def _failures_section(material: ClipInput, failures: list[Failure]) -> str:
    heading = Message("Failures")
    if material.kind != "run":
        return page.section(heading, remark=Message("An exported file does not record failures."))
    if not failures:
        return page.section(heading, remark=Message("None: every clip and every frame was read."))
    groups = (row.values() for row in group_failures(failures))
    reasons = page.table(
        ["reason", "failures", Message("frames lost"), "clips"],
        [(Message(reason), *counts) for reason, *counts in groups],
    )
    rows = []
    for failure in failures[:FAILURES_SHOWN]:
        index = failure.frame_index
        frame = Message("whole clip") if index is None else str(index)
        reason = Message(failure.reason)
        rows.append((failure.split, failure.clip_id, frame, reason, failure.message))
    detail = page.table(["split", "clip", "frame", "reason", "message"], rows)
    template = "The first {num_rows} of {num_failures:,}, one by one"
    summary = Message(template, num_rows=len(rows), num_failures=len(failures))
    folded = f"<details><summary>{page.text(summary)}</summary>{detail}</details>"
    return page.section(heading, reasons, folded)
