"""`posemill compare --out`: one HTML file about two runs, in the manner of a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posemill import __version__
from posemill.clips.inputs import ClipName
from posemill.files import atomic_path
from posemill.inspection.comparison.distances import PartAgreement, bar_labels
from posemill.inspection.comparison.measure import Comparison, WorstFrame, differences
from posemill.inspection.comparison.pairs import Side
from posemill.inspection.drawing.frame_picture import draw
from posemill.inspection.drawing.naming import writing
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.report.charts import bar_chart, histogram
from posemill.inspection.report.page import page, picture_uri, section, table, text, tiles
from posemill.records import Frame, PoseClip
from posemill.skeletons.palette import lack_words, part_colour, part_label

_LEAST_SHARE = 0.2  # of a picture's sides that is shown around a part
_PICTURE_WIDTH = 520
_Box = tuple[float, float, float, float]


def write_page(compared: Comparison, out: Path, *, originals: Originals) -> None:
    """Write the page: one file, whole or not at all, of a few MB however long the runs are.

    Args:
        compared: Its worst frames are read again, for their pictures.
        out: The HTML file.
        originals: Where the pictures come from.
    """
    sides = compared.pairing.one, compared.pairing.other
    labels = _labels(*(side.material.path for side in sides))
    body = [
        f'<p class="quiet">posemill compare</p><h1>{text(labels[0])}, {text(labels[1])}</h1>',
        f'<p class="quiet">{text(_subtitle(compared))}</p>',
        _tiles(compared, labels),
        _agreement_section(compared),
        _distance_section(compared, labels),
        _worst_section(compared, labels, originals),
        section(
            "What is not the same",
            table(["setting", *labels], differences(compared.pairing)),
            remark="As recorded with the data.",
        ),
        _method_section(labels),
    ]
    with writing(out), atomic_path(out) as temporary:
        title = f"{labels[0]}, {labels[1]} - posemill compare"
        temporary.write_text(page(title, body), encoding="utf-8")


def _labels(*paths: Path) -> list[str]:
    """Return short names of two inputs, that are not the same."""
    names = [path.resolve().name or str(path) for path in paths]
    return names if names[0] != names[1] else [str(path) for path in paths]


def _subtitle(compared: Comparison) -> str:
    pairing = compared.pairing
    sides = [f"{each.material.path.resolve()} ({each.skeleton_name})"
             for each in (pairing.one, pairing.other)]  # fmt: skip
    num_points = int(pairing.is_shared.sum())
    return f"{sides[0]} and {sides[1]}, compared in {num_points} points of {pairing.layout}"


def _tiles(compared: Comparison, labels: Sequence[str]) -> str:
    pairing, total = compared.pairing, compared.total
    shown: list[tuple[int, str]] = [
        (total.num_clips, "clips in both"),
        (total.num_frames, "frames in both"),
    ]
    for side, label, frames in (
        (pairing.one, labels[0], compared.frames_of_one),
        (pairing.other, labels[1], compared.frames_of_other),
    ):
        shown.append((len(pairing.only(side)), f"clips in {label} only"))
        shown.append((frames, f"frames in {label} only"))
    return tiles(shown)


def _agreement_section(compared: Comparison) -> str:
    groups = [
        (
            f"{split.split}  ({split.num_frames:,} frames)",
            [
                (name, part.agree or 0.0, text(_percent(part.agree)))
                for name, part in split.parts.items()
            ],
        )
        for split in compared.splits
    ]
    return section(
        "Agreement",
        bar_chart(groups, maximum=1, label="Share of frames in which both say the same"),
        remark="Share of frames in which both found the part, or both missed it. It says nothing "
        "about how far apart the points are: see the distances.",
    )


def _distance_section(compared: Comparison, labels: Sequence[str]) -> str:
    rows = [
        (
            split.split,
            part_label(name),
            part.one_has,
            part.other_has,
            part.both,
            *map(pixels_in_words, _quantiles(part)),
        )
        for split in compared.splits
        for name, part in split.parts.items()
    ]
    charts = [
        f"<div><h3>{text(part_label(name))}</h3>"
        + histogram(
            bar_labels(), part.distances.bars(), colour=part_colour(name), x_label="pixels",
            label=f"Distances of the {part_label(name)}", counted="points",
        )
        + "</div>"
        for name, part in compared.total.parts.items()
        if len(part.distances)
    ]  # fmt: skip
    columns = ["split", "part", *(f"frames in {each}" for each in (*labels, "both")),
               "median px", "95 % below px", "largest px"]  # fmt: skip
    return section(
        "Distances",
        table(columns, rows),
        f'<div class="row">{"".join(charts)}</div>',
        remark="Of every point that both have, in pixels of the original pictures.",
    )


def _quantiles(part: PartAgreement) -> list[float | None]:
    found = part.to_dict()
    return [found["median"], found["p95"], found["max"]]


def pixels_in_words(value: float | None) -> str:
    """Return a distance as people read it: three digits, `0` below a thousandth of a pixel."""
    if value is None:
        return "-"
    return "0" if value < 0.0005 else f"{value:.3f}" if value < 1 else f"{value:.3g}"


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return "<100 %" if share < 1 and f"{share:.1%}" == "100.0%" else f"{100 * share:.4g} %"


def _worst_section(compared: Comparison, labels: Sequence[str], originals: Originals) -> str:
    apart, one_only = compared.apart, compared.one_only
    if not apart and not one_only:
        return section("Worst frames", "<p>There is no difference in any frame.</p>")
    pairing = compared.pairing
    found = [_frames_of(side, [*apart, *one_only]) for side in (pairing.one, pairing.other)]
    blocks: list[str] = []
    for heading, frames in (("Farthest apart", apart), ("Found by one only", one_only)):
        blocks += [f"<h3>{text(heading)}</h3>"] * bool(frames)
        for frame in frames:
            clips = [each[frame] for each in found]
            alike = [clip.as_skeleton(pairing.layout) for clip in clips]
            ((_, picture),) = originals.frames(clips[0], [0])
            box = _box_of(alike, frame.parts)
            figures = "".join(
                _figure(picture, *each, box) for each in zip(clips, labels, strict=True)
            )
            words = _far_words(frame) if frames is apart else _missing_words(frame, alike, labels)
            blocks.append(
                f'<div class="clip"><div>{text(frame.clip_id or "(no name)")}, frame '
                f'{frame.frame_index}</div><div class="quiet">{text(frame.split)}; {text(words)}'
                f'</div><div class="pictures pair">{figures}</div></div>'
            )
    remark = "One frame of each clip, cut to the part that differs."
    return section("Worst frames", *blocks, remark=remark)


def _far_words(frame: WorstFrame) -> str:
    parts = ", ".join(map(part_label, frame.parts))
    return f"{parts}: {pixels_in_words(frame.badness)} px apart on average"


def _missing_words(frame: WorstFrame, clips: Sequence[PoseClip], labels: Sequence[str]) -> str:
    has = [~np.isnan(clips[0].part(name)[0, :, 0]).all() for name in frame.parts]
    return "; ".join(
        f"{part_label(name)} in {labels[0] if in_first else labels[1]} only"
        for name, in_first in zip(frame.parts, has, strict=True)
    )


def _figure(picture: Frame | None, clip: PoseClip, label: str, box: _Box) -> str:
    left, top, right, bottom = box
    long_side = round(_PICTURE_WIDTH / max(right - left, bottom - top))
    drawn = draw(picture, clip, 0, legend=False, min_long_side=long_side, line_scale=0.7)
    height, width = drawn.shape[:2]
    cut = drawn[int(top * height) : int(bottom * height), int(left * width) : int(right * width)]
    names = clip.skeleton.part_names
    lack = lack_words([name for name, has in zip(names, clip.present[0], strict=True) if not has])
    caption = "; ".join(filter(None, [label, lack]))
    return (
        f'<figure><img alt="{text(caption)}" '
        f'src="{picture_uri(np.ascontiguousarray(cut), _PICTURE_WIDTH)}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


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
        name = side.name_of(frame.split, frame.clip_id)
        by_name.setdefault(name, []).append(frame)
    return {
        frame: _one_frame(clip, frame.frame_index)
        for clip in side.material.pick(by_name)
        for frame in by_name[clip.split, clip.clip_id]
    }


def _one_frame(clip: PoseClip, frame_index: int) -> PoseClip:
    row = int(np.flatnonzero(clip.frame_indices == frame_index)[0])
    rows = slice(row, row + 1)
    changes: dict[str, Any] = {
        name: getattr(clip, name)[rows].copy()
        for name in ("points", "scores", "sizes_wh", "frame_indices")
    }
    paths = clip.image_paths[rows]
    return dataclasses.replace(clip, **changes, image_paths=paths, others=None, world=None)


def _method_section(labels: Sequence[str]) -> str:
    lines = [
        "Clips are matched by split and name, frames by their place in the source. What only one "
        "side has is counted above and not measured.",
        "A part is found in a frame if at least one of its points is. Agreement is the share of "
        "frames in which both sides found it or both did not.",
        f"A distance is that of one point, in pixels of the pictures of {labels[0]}, wherever "
        "both sides have it. Quantiles are exact to 0.1 %.",
        f"This page was made by posemill {__version__}.",
    ]
    return section("How it is measured", *(f"<p>{text(line)}</p>" for line in lines))
