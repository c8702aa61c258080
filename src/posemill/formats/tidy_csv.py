"""CSV: a row per point, for R and spreadsheets; its columns: docs/formats.md.

Landmarks in metres are rows behind those: the point `world:nose`, x, y and z in metres, no score.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posemill.errors import ContentError
from posemill.files import atomic_path
from posemill.formats.shared import contract
from posemill.formats.shared.contract import ClipStream, Format, Size
from posemill.formats.shared.json_text import info_of, line_of, read_info
from posemill.formats.shared.losses import EMPTY_CLIPS
from posemill.formats.shared.people import clip_of_rows
from posemill.npz.clips import expect_new, read_object
from posemill.records import FloatArray, PoseClip, nothing_in_metres
from posemill.skeletons import SKELETON_NAMES, WORLD_LAYOUT, get_skeleton
from posemill.tables import plain_name, split_lines

_COLUMNS = ("clip", "split", "frame", "point", "x", "y", "z", "score", "person", "info")
_NEEDED = ("clip", "frame", "point", "x", "y")
_MAX_INFO = 1 << 16  # characters; the reader of Python takes fields of twice as many
_MAX_LINE = 1 << 20
_WORLD_PREFIX = "world:"
_WORLD_NAMES = tuple(f"{_WORLD_PREFIX}{name}" for name in WORLD_LAYOUT.point_names)


class CsvFormat(Format):
    """One CSV file."""

    name = "csv"
    suffix = ".csv"
    layouts: tuple[str, ...] = ("holistic-143", contract.ANY)
    holds_world = True
    holds_people = True
    may_lose = (EMPTY_CLIPS,)
    damage = (csv.Error,)

    def sniff(self, path: Path) -> bool:
        """Return True for a text whose first line has the columns."""
        if path.is_dir():
            return False
        with path.open(encoding="utf-8-sig", errors="replace") as handle, suppress(ContentError):
            return {*_NEEDED} <= {*split_lines([handle.readline(512)], names=_COLUMNS)[0]}
        return False

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file."""
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as handle,
        ):
            writer = csv.writer(handle)
            writer.writerow(_COLUMNS)
            for clip in clips:
                writer.writerows(_rows_of(clip, clips.header(clip)))

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips: rows of one split and clip that follow each other."""
        seen: set[tuple[str, str]] = set()
        for name, rows in groupby(_read_rows(path), key=itemgetter(0, 1)):
            expect_new(name, seen)
            yield _clip_of(path, list(rows), size_wh, split=name[0], clip_id=name[1])


def _rows_of(clip: PoseClip, header: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    names = get_skeleton(clip.skeleton_name).point_names
    whole = header | {"clip": info_of(clip)}
    people = clip.everybody()
    has_others = clip.others is not None and clip.others.counts.any()
    for row, rows in groupby(range(len(people.frames)), key=people.frames.tolist().__getitem__):
        info: dict[str, Any] = {"size": clip.sizes_wh[row].tolist()}
        if clip.image_paths:
            info["picture"] = clip.image_paths[row]
        text = line_of(whole | info if row == 0 else info, clip.clip_id, most=_MAX_INFO)
        # 9 digits are enough to give a float32 back.
        start = (clip.clip_id, clip.split, int(clip.frame_indices[row]))
        for number, index in enumerate(rows, start=1):
            # In pictures that stand alone people are numbered from 1 on.
            person = str(people.ids[index] or number) if has_others else ""
            points, scores = people.points[index].tolist(), people.scores[index].tolist()
            for name, xyz, score in zip(names, points, scores, strict=True):
                yield *start, name, *_place_of(xyz), f"{score:.9g}", person, text
                text = ""
        if clip.world is not None:
            for name, xyz in zip(_WORLD_NAMES, clip.world[row].tolist(), strict=True):
                yield *start, name, *_place_of(xyz), "", "", ""


def _place_of(xyz: list[float]) -> list[str]:
    """Return x, y and z as they are written; empty for a point that was not found."""
    return ["" if xyz[0] != xyz[0] else f"{value:.9g}" for value in xyz]


class _Row(NamedTuple):
    """A row of a table."""

    split: str
    clip_id: str
    frame: int
    person: int
    point: str
    xyz: tuple[float, float, float]
    score: float | None
    info: str


def _read_rows(path: Path) -> Iterator[_Row]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as handle:
        columns, lines = split_lines(_lines_of(handle), names=_COLUMNS)
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            template = "line 1: expected columns {needed}, got {columns}"
            raise ContentError(template, needed=", ".join(_NEEDED), columns=columns)
        for number, fields in lines:
            cells = dict(zip(columns, fields, strict=False))
            try:
                x, y, z, score = (_number(cells.get(name, "")) for name in ("x", "y", "z", "score"))
                is_lost = x is None or y is None
                xyz = (np.nan,) * 3 if is_lost else (x or 0.0, y or 0.0, z or 0.0)
                row = _Row(
                    cells.get("split") or "all",
                    cells["clip"],
                    int(cells["frame"]),
                    _id_of(cells.get("person", "")),
                    plain_name(cells["point"]),
                    xyz,
                    score,
                    cells.get("info", ""),
                )
            except ValueError as error:
                raise ContentError("line {number}: {error}", number=number, error=error) from error
            yield row


def _id_of(text: str) -> int:
    """Return a person's id, 0 for none: tables of others may have names there."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _lines_of(handle: Any) -> Iterator[str]:
    while line := handle.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise ContentError("a line has {max_line} characters or more", max_line=_MAX_LINE)
        yield line


def _number(text: str) -> float | None:
    """Return the number, None for none: empty, NA or NaN."""
    return None if text.strip().lower() in ("", "na", "nan") else float(text)


def _clip_of(
    path: Path, rows: list[_Row], size_wh: Size | None, *, split: str, clip_id: str
) -> PoseClip:
    frames = [list(frame) for _, frame in groupby(rows, key=lambda row: row.frame)]
    people: list[list[_Row]] = []  # the points of each person of each frame
    infos, frame_of = [], list[int]()
    for index, frame in enumerate(frames):
        points = (row for row in frame if not row.point.startswith(_WORLD_PREFIX))
        found = [list(person) for _, person in groupby(points, key=lambda row: row.person)]
        if not found:
            raise ValueError("a frame has landmarks in metres and no points")
        people += found
        infos.append(read_object(found[0][0].info or "{}", "info"))
        frame_of += [index] * len(found)
    first, names = infos[0], [row.point for row in people[0]]
    if first.get("skeleton") is None:
        same = (name for name in SKELETON_NAMES if {*_names_of(name)} == {*names})
        first["skeleton"] = next(same, None)
    done = contract.header_fields(first, len(names), path)
    order = _order_of(names, done["skeleton_name"])
    for person in people:
        if [row.point for row in person] != names:
            raise ValueError(
                f"clip {clip_id[:80]!r}, frame {person[0].frame}: expected the same {len(names)} "
                f"points in every frame, got {len(person)}"
            )
    places = np.array([[person[at].xyz for at in order] for person in people])
    scores = np.array([[person[at].score for at in order] for person in people], np.float64)
    mask, has_scores = ~np.isnan(places[..., 0]), not np.isnan(scores).any()
    pictures = [info.get("picture") for info in infos]
    sizes = [info.get("size") or size_wh or (0, 0) for info in infos]
    ids = np.array([person[0].person for person in people], np.int64)
    clip = clip_of_rows(
        np.array(frame_of),
        places,
        scores if has_scores else mask.astype(np.float64),
        mask,
        ids=ids * mask.any(axis=1),
        split=split,
        clip_id=clip_id,
        sizes_wh=np.array(sizes, np.int32),
        frame_indices=np.array([frame[0].frame for frame in frames], np.int64),
        image_paths=() if None in pictures else tuple(map(str, pictures)),
        **read_info(first.get("clip")),
        **done,
    )
    return replace(clip, world=_world_of(frames))


def _world_of(frames: list[list[_Row]]) -> FloatArray | None:
    """Return `(frames, 75, 3)` in metres, NaN where not found; None where no row has any."""
    world = nothing_in_metres(len(frames))
    where = {plain_name(name): at for at, name in enumerate(_WORLD_NAMES)}
    is_known = False
    for place, frame in zip(world, frames, strict=True):
        for row in frame:
            if row.point.startswith(_WORLD_PREFIX):
                is_known = True
                place[where[row.point]] = row.xyz
    return world if is_known else None


def _names_of(skeleton: str) -> list[str]:
    return [plain_name(name) for name in get_skeleton(skeleton).point_names]


def _order_of(names: list[str], skeleton: str) -> list[int]:
    """Return where each point of the skeleton stands: by its name, else by its number."""
    known = _names_of(skeleton)
    where = {name: at for at, name in enumerate(names)}
    prefix = names[0].rstrip("0123456789")  # of `joint 0`, `joint 1` …
    for wanted in (known, [f"{prefix}{number}" for number in range(len(names))]):
        if where.keys() == set(wanted):
            return [where[name] for name in wanted]
    raise ContentError(
        "its points are not those of {skeleton}, which has as many: {other!r} is none of them; "
        "name the points as posemill does, or number them from 0 in its order",
        skeleton=skeleton,
        other=next(name for name in names if name not in known),
    )
