"""`posemill report`: one HTML file about a run, to be sent to anyone and opened anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from posemill import __version__
from posemill.clips.inputs import ClipInput
from posemill.inspection.drawing.frame_picture import draw, missing_parts
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.quality import ClipQuality, RunQuality, measure
from posemill.inspection.report import findings
from posemill.inspection.report.page import (
    badge,
    clip_block,
    figure,
    paragraph,
    section,
    table,
    text,
    tiles,
    write_page,
)
from posemill.inspection.report.smoothing import clip_to_smooth, smoothing_section
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
    """Write the report: one file, whole or not at all, of a few MB however long the run is.

    The worst clips are read again, for their pictures.
    """
    facts, failures = material.facts(), material.failures()
    name = material.path.resolve().name or str(material.path)
    failed, origin = _failures_section(material, failures), _facts_section(facts)
    body = [_tiles(quality, material), failed, origin]
    if quality.num_clips:  # else everything failed, and there is nothing to measure
        body = [
            _tiles(quality, material),
            findings.presence_section(quality),
            findings.motion_section(quality),
            *_smoothing(material, quality),
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
    write_page(out, "report", name, *body, subtitle=join(", ", about))


def _smoothing(material: ClipInput, quality: RunQuality) -> list[str]:
    """Return the section on smoothing; nothing where the points are no longer those of pictures."""
    chosen = clip_to_smooth(quality)
    names = [] if chosen is None else [(chosen.split, chosen.clip_id)]
    clips = [clip for clip in material.pick(names) if clip.smoothed == clip.normalized == "none"]
    return [smoothing_section(clip) for clip in clips]


def telling_rows(clip: PoseClip, quality: ClipQuality) -> list[tuple[int, str]]:
    """Return the rows of a clip that show its faults best, with words; at most four, in order."""
    chosen: dict[int, str] = {}

    def choose(row: int, words: str) -> None:
        if 0 <= row < len(clip) and len(chosen) < _PICTURES_PER_CLIP:
            chosen.setdefault(row, words)

    events = [
        (frame_index, Message("left/right suspect")) for frame_index in quality.swap_frames[:1]
    ]
    events += [
        (
            part.jump_frames[0],
            Message("jump of {part_label}", part_label=part_label(part.name)),
        )
        for part in quality.parts
        if part.jump_frames
    ]
    for frame_index, words in events:
        # A change is seen by the row before it: its number is not one less where rows are strides.
        row = int(np.searchsorted(clip.frame_indices, frame_index))
        choose(row, words)
        choose(row - 1, Message("just before"))
    for row in np.linspace(0, len(clip) - 1, 2 * _PICTURES_PER_CLIP + 1).round().astype(int)[1::2]:
        if len(chosen) < _PICTURES_PER_CLIP:
            chosen.setdefault(int(row), "")
    return sorted(chosen.items())


def _tiles(quality: RunQuality, material: ClipInput) -> str:
    splits = quality.splits.values()
    return tiles(
        [
            (quality.num_clips, "clips"),
            (quality.num_frames, "frames"),
            (sum(material.num_failed("clips").values()), Message("clips failed")),
            (sum(material.num_failed().values()), Message("frames failed")),
            (sum(p["num_jumps"] for s in splits for p in s.parts.values()), "jumps"),
            (sum(s.sums["num_swaps"] for s in splits), Message("left/right suspects")),
            (sum(s.sums["num_frozen"] for s in splits), Message("frozen frames")),
        ]
    )


def _worst_section(material: ClipInput, quality: RunQuality, originals: Originals) -> str:
    worst = [each for each in quality.worst[:WORST_SHOWN] if each.reasons]
    if not worst:
        return section(
            Message("Worst clips"),
            paragraph(Message("No clip has a fault that was looked for.")),
        )
    by_name = {(each.split, each.clip_id): each for each in worst}
    pictures = {
        (clip.split, clip.clip_id): _pictures(clip, by_name[clip.split, clip.clip_id], originals)
        for clip in material.pick(by_name)
    }
    blocks = [
        clip_block(
            f"<h3>{badge(1 - clip.badness, f'{clip.badness:.2f}')} "
            f"{text(clip.clip_id or '(no name)')}</h3>",
            Message(
                "{split}, {frames}: {reasons}",
                split=clip.split,
                frames=findings.frames_text(clip.num_frames),
                reasons=join("; ", clip.reasons),
            ),
            pictures.get((clip.split, clip.clip_id), ""),
        )
        for clip in worst
    ]
    remark = Message(
        "The {num_worst} worst of {num_clips:,} clips. The number is the badness: 0 is nothing to "
        "say, 1 is nothing found; how it is made stands at the end.",
        num_worst=len(worst),
        num_clips=quality.num_clips,
    )
    return section(Message("Worst clips"), *blocks, remark=remark)


def _pictures(clip: PoseClip, quality: ClipQuality, originals: Originals) -> str:
    words = dict(telling_rows(clip, quality))
    return "".join(
        _figure(clip, row, frame, words[row]) for row, frame in originals.frames(clip, list(words))
    )


def _figure(clip: PoseClip, row: int, frame: Any, words: str) -> str:
    number = Message("frame {frame}", frame=clip.frame_indices[row])
    picture = draw(frame, clip, row, legend=False, min_long_side=480, line_scale=1.6)
    return figure(picture, join("; ", [number, words, lack_words(missing_parts(clip, row))]))


def _failures_section(material: ClipInput, failures: list[Failure]) -> str:
    if material.kind != "run":
        return section(
            Message("Failures"), paragraph(Message("An exported file does not record failures."))
        )
    if not failures:
        return section(
            Message("Failures"), paragraph(Message("None: every clip and every frame was read."))
        )
    reasons = table(
        ["reason", "failures", Message("frames lost"), "clips"],
        [(Message(reason), *counts) for reason, *counts in map(astuple, group_failures(failures))],
    )
    rows = [
        (
            each.split,
            each.clip_id,
            Message("whole clip") if each.frame_index is None else str(each.frame_index),
            Message(each.reason),
            each.message,
        )
        for each in failures[:FAILURES_SHOWN]
    ]
    detail = table(["split", "clip", "frame", "reason", "message"], rows)
    heading = Message(
        "The first {num_rows} of {num_failures:,}, one by one",
        num_rows=len(rows),
        num_failures=len(failures),
    )
    folded = f"<details><summary>{text(heading)}</summary>{detail}</details>"
    return section(Message("Failures"), reasons, folded)


def _facts_section(facts: Mapping[str, Any]) -> str:
    rows = list(flatten(facts))
    return section(
        Message("Where it comes from"),
        table(["setting", "value"], rows),
        remark=Message(
            "As recorded with the data; this report was made by posemill {version}.",
            version=__version__,
        ),
    )
