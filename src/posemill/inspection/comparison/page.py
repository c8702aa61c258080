"""`posemill compare --out`: one HTML file about two runs, in the manner of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from posemill import __version__
from posemill.clips.inputs import ClipName
from posemill.inspection.comparison.measure import BAR_LABELS, Comparison, WorstFrame, differences
from posemill.inspection.comparison.pairs import Side, cut_clip, match_key
from posemill.inspection.drawing.frame_picture import draw, missing_parts
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.report import page
from posemill.inspection.summary import percent
from posemill.messages import Message, join
from posemill.records import Frame, PoseClip
from posemill.skeletons.palette import lack_words, part_colour, part_label

_LEAST_SHARE = 0.2  # of a picture's sides that is shown around a part
_PICTURE_WIDTH = 520
_Box = tuple[float, float, float, float]


def write_comparison(compared: Comparison, out: Path, *, originals: Originals) -> None:
    """Write the page: one file, whole or not at all, of a few MB however long the runs are."""
    pairing = compared.pairing
    paths = [side.material.path.resolve() for side in pairing.sides]
    has_same_names = paths[0].name == paths[1].name
    labels = [str(path) if has_same_names else path.name or str(path) for path in paths]
    method = [
        Message(
            "Clips are matched by split and name, frames by their place in the source. What only "
            "one side has is counted above and not measured."
        ),
        Message(
            "A part is found in a frame if at least one of its points is. Agreement is the share "
            "of frames in which both sides found it or both did not."
        ),
        Message(
            "A distance is that of one point, in pixels of the pictures of {run}, wherever both "
            "sides have it. Quantiles are exact to 0.1 %.",
            run=labels[0],
        ),
        Message("This page was made by posemill {version}.", version=__version__),
    ]
    page.write_page(
        out,
        "compare",
        ", ".join(labels),
        _tiles(compared, labels),
        _distance_section(compared, labels),
        _worst_section(compared, labels, originals),
        page.section(
            Message("What is not the same"),
            page.table(["setting", *labels], differences(pairing)),
            remark=Message("As recorded with the data."),
        ),
        page.section(Message("How it is measured"), *map(page.paragraph, method)),
        subtitle=Message(
            "{one} and {other}, compared in {num_points} points of {layout}",
            one=f"{paths[0]} ({pairing.sides[0].skeleton_name})",
            other=f"{paths[1]} ({pairing.sides[1].skeleton_name})",
            num_points=int(pairing.is_shared.sum()),
            layout=pairing.layout,
        ),
    )


def _tiles(compared: Comparison, labels: Sequence[str]) -> str:
    pairing, total = compared.pairing, compared.total
    shown: list[tuple[int, str]] = [
        (total.num_clips, Message("clips in both")),
        (total.num_frames, Message("frames in both")),
    ]
    for number, label in enumerate(labels):
        shown += [
            (len(pairing.only(number)), Message("clips in {run} only", run=label)),
            (compared.frames_only[number], Message("frames in {run} only", run=label)),
        ]
    return page.tiles(shown)


def _distance_section(compared: Comparison, labels: Sequence[str]) -> str:
    rows = [
        (
            split.split,
            part_label(name),
            *(part[key] for key in ("one_has", "other_has", "both")),
            percent(part["agree"]),
            *(pixels_in_words(part[key]) for key in ("median", "p95", "max")),
        )
        for split in compared.splits
        for name, part in split.to_dict()["parts"].items()
    ]
    charts = []
    for name, part in compared.total.parts.items():
        counts = part.bars()
        if any(counts):
            bars = [
                (label, part_colour(name), count / max(counts), f"{count:,}")
                for label, count in zip(BAR_LABELS, counts, strict=True)
            ]
            charts.append((part_label(name), bars))
    columns = [
        "split",
        "part",
        *(Message("frames in {run}", run=label) for label in labels),
        Message("frames in both"),
        Message("agree"),
        Message("median px"),
        Message("95 % below px"),
        Message("largest px"),
    ]
    return page.section(
        Message("Agreement and distances"),
        page.table(columns, rows),
        page.bar_chart(charts, label=Message("Distances in pixels")),
        remark=Message(
            "Agree: share of frames in which both found the part, or both missed it. Distances: of "
            "every point that both have, in pixels of the original pictures; the bars count points."
        ),
    )


def pixels_in_words(value: float | None) -> str:
    """Return a distance as people read it: three digits, `0` below a thousandth of a pixel."""
    if value is None:
        return "-"
    return "0" if value < 0.0005 else f"{value:.3f}" if value < 1 else f"{value:.3g}"


def _worst_section(compared: Comparison, labels: Sequence[str], originals: Originals) -> str:
    heading = Message("Worst frames")
    apart, one_only = compared.apart, compared.one_only
    if not apart and not one_only:
        return page.section(heading, remark=Message("There is no difference in any frame."))
    pairing = compared.pairing
    sides = [_frames_of(side, [*apart, *one_only]) for side in pairing.sides]
    blocks: list[str] = []
    for title, frames in (
        (Message("Farthest apart"), apart),
        (Message("Found by one only"), one_only),
    ):
        blocks += [f"<h3>{page.text(title)}</h3>"] if frames else []
        for frame in frames:
            clips = [side[frame] for side in sides]
            ((_, picture),) = originals.frames(clips[0], [0])
            alike = [clip.as_skeleton(pairing.layout) for clip in clips]
            box = _box_of(alike, frame.parts)
            figures = [
                _figure(picture, clip, label, box)
                for clip, label in zip(clips, labels, strict=True)
            ]
            clip_id = frame.clip_id or "(no name)"
            name = Message("{clip_id}, frame {frame}", clip_id=clip_id, frame=frame.frame_index)
            words = [frame.split]
            if frames is apart:
                template = "{parts}: {pixels} px apart on average"
                parts = join(", ", map(part_label, frame.parts))
                words.append(Message(template, parts=parts, pixels=pixels_in_words(frame.badness)))
            else:
                template, missing = "{part} in {run} only", missing_parts(alike[0], 0)
                words += [
                    Message(template, part=part_label(part), run=labels[part in missing])
                    for part in frame.parts
                ]
            heading_html = f"<div>{page.text(name)}</div>"
            block = page.clip_block(heading_html, join("; ", words), "".join(figures), is_pair=True)
            blocks.append(block)
    remark = Message("One frame of each clip, cut to the part that differs.")
    return page.section(heading, *blocks, remark=remark)


def _figure(picture: Frame | None, clip: PoseClip, label: str, box: _Box) -> str:
    left, top, right, bottom = box
    long_side = round(_PICTURE_WIDTH / max(right - left, bottom - top))
    drawn = draw(picture, clip, 0, legend=False, min_long_side=long_side, line_scale=0.7)
    height, width = drawn.shape[:2]
    cut = drawn[int(top * height) : int(bottom * height), int(left * width) : int(right * width)]
    caption = join("; ", [label, lack_words(missing_parts(clip, 0))])
    return page.figure(np.ascontiguousarray(cut), caption, longest=_PICTURE_WIDTH)


def _box_of(clips: Sequence[PoseClip], parts: Sequence[str]) -> _Box:
    """Return left, top, right and bottom, as shares of the picture, of what is worth a look."""
    points = np.concatenate([clip.part(name)[0, :, :2] for clip in clips for name in parts])
    points = np.clip(points[~np.isnan(points[:, 0])], 0, 1)
    if not len(points):
        return 0, 0, 1, 1
    middle = (points.max(0) + points.min(0)) / 2
    half = np.maximum((points.max(0) - points.min(0)) * 0.8, _LEAST_SHARE / 2)
    (left, top), (right, bottom) = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
    return float(left), float(top), float(right), float(bottom)


def _frames_of(side: Side, wanted: Sequence[WorstFrame]) -> dict[WorstFrame, PoseClip]:
    """Return clips of one frame, for each that is wanted; only one whole clip in memory."""
    by_name: dict[ClipName, list[WorstFrame]] = {}
    for frame in wanted:
        by_name.setdefault(side.names[match_key(frame.split, frame.clip_id)], []).append(frame)
    clips: dict[WorstFrame, PoseClip] = {}
    for clip in side.material.pick(by_name):
        for frame in by_name[clip.split, clip.clip_id]:
            row = int(np.flatnonzero(clip.frame_indices == frame.frame_index)[0])
            clips[frame] = replace(cut_clip(clip, row, row + 1), others=None)
    return clips
