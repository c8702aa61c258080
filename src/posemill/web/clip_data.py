"""One clip for the player: what it is, and its points in windows of frames."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from posemill.clips.inputs import ClipInput
from posemill.clips.people import choose_person
from posemill.errors import PosemillError, RunError
from posemill.inspection.comparison.measure import PartAgreement, part_frames, shared_rows
from posemill.inspection.comparison.pairs import choose_layout, cut_clip
from posemill.inspection.drawing.placing import model_bounds
from posemill.inspection.quality import bin_means, measure, squeeze
from posemill.inspection.summary import clip_row
from posemill.records import FloatArray, OtherPeople, PersonIds, PoseClip, nobody_else
from posemill.runs.queries import ShardRows, read_ledger
from posemill.runs.reader import open_run
from posemill.runs.shards import BlockPlan
from posemill.skeletons import palette
from posemill.web.library import ClipAddress, prepared_files

MOST_FRAMES = 500  # of a window
STRIP_BINS = 600
_MOST_FPS = 120  # some files say thousands
_MOST_MEASURED = 5000  # frames; longer clips are shown without what is wrong with them


def play_rate(fps: float | None) -> float:
    """Return the frames a second to show a clip at: its own, where that is one a camera has."""
    return fps if fps is not None and 1 <= fps <= _MOST_FPS else 25.0


def read_window(address: ClipAddress, start: int, count: int) -> PoseClip:
    """Return some frames of a clip, `start` counted in its rows; an error where there are none."""
    if start >= max(1, clip_length(address)):
        template = "clip {clip_id!r} has no frame {start}"
        raise RunError(template, clip_id=address.clip_id, start=start)
    if address.entry.kind != "extraction":
        return cut_clip(_clip_of_file(address), start, start + count)
    folder = address.entry.folder
    chosen: list[ShardRows] = []
    before = 0  # rows of the clip
    for row in _rows_of(address):
        skipped = max(0, start - before)
        taken = min(row.num_rows, start + count - before) - skipped
        if taken > 0:
            chosen.append(row._replace(offset=row.offset + skipped, num_rows=taken))
        before += row.num_rows
    (clip,) = open_run(folder).read_block(BlockPlan(tuple(chosen))).clips
    return dataclasses.replace(clip, run_folder=str(folder))


def pack_points(rows: PoseClip | OtherPeople) -> bytes:
    """Return x, y (NaN where missing) and score of all points of frames or people, as float32."""
    packed = np.concatenate([rows.points[..., :2], rows.scores[..., None]], axis=2)
    return packed.astype("<f4").tobytes()


def pack_people(clip: PoseClip) -> bytes:
    """Return the people beside the first of each frame.

    int32: the number of frames and of people; for each frame how many people it has beside the
    first, and the id of the first; the ids of the others. float32: their points, as `pack_points`.
    """
    others, ids = clip.others or nobody_else(len(clip), clip.skeleton.num_points), clip.person_ids
    if ids is None:
        ids = PersonIds(np.zeros(len(clip), np.int64), np.zeros(0, np.int64))
    sizes = [len(clip), len(others.points)]
    numbers = np.concatenate([sizes, others.counts, ids.first, ids.others])
    return numbers.astype("<i4").tobytes() + pack_points(others)


def describe_clip(address: ClipAddress) -> dict[str, Any]:
    """Return all that the player has to know before it draws the first frame."""
    length = clip_length(address)
    first = read_window(address, 0, MOST_FRAMES)
    strips = _strips(address, length, first) if length <= _MOST_MEASURED else {}
    bounds, skeleton = model_bounds(first), first.skeleton
    colours = {key: palette.hex_of(colour) for key, colour in palette.COLOURS.items()}
    parts = [{**vars(part), "colour": palette.part_colour(part.name)} for part in skeleton.parts]
    return {
        "split": first.split,
        "clip_id": first.clip_id,
        "label": first.label,
        "fps": first.fps,
        "play_fps": play_rate(first.fps),
        "num_frames": length,
        "window": MOST_FRAMES,
        "size_wh": first.sizes_wh[0].tolist() if len(first) else [0, 0],
        "is_video": not first.image_paths,
        "bounds": None if bounds is None else [each.tolist() for each in bounds],
        "has_people": first.others is not None,
        "people_colours": [palette.hex_of(colour) for colour in palette.PEOPLE_COLOURS],
        "skeleton": {
            "name": skeleton.name,
            "num_points": skeleton.num_points,
            "point_names": skeleton.point_names,
            "parts": parts,
            "bones": skeleton.bones,
            "point_colours": [colours[key] for key in palette.point_keys(skeleton.name)],
            "bone_colours": [colours[key] for key in palette.bone_keys(skeleton.name)],
        },
        **strips,
    }


def compare_clips(one: ClipAddress, other: ClipAddress) -> dict[str, Any]:
    """Return for each frame of the first clip how far the points of the second are, in pixels.

    `rows` says which row of the second is the same frame, -1 where none is.
    """
    clips = [read_whole(each, _MOST_MEASURED) for each in (one, other)]
    layout, is_shared = choose_layout(clips[0].skeleton_name, clips[1].skeleton_name)
    first, second = (clip.as_skeleton(layout) for clip in clips)
    rows_one, rows_other = shared_rows(first.frame_indices, second.frame_indices)
    parts, distances_of_parts = dict[str, Any](), list[FloatArray]()
    shared = part_frames(first, second, is_shared, (rows_one, rows_other))
    for name, in_one, in_other, pixels in shared:
        parts[name] = PartAgreement.of(in_one, in_other, pixels).to_dict()
        distances_of_parts.append(pixels)
    of_points = np.ma.masked_invalid(np.hstack(distances_of_parts))
    distances = np.full(len(first), np.nan)
    distances[rows_one] = of_points.mean(axis=1).filled(np.nan)
    rows = np.full(len(first), -1)
    rows[rows_one] = rows_other
    return {
        "layout": layout,
        "num_points": int(is_shared.sum()),
        "distances": distances.tolist(),
        "rows": rows.tolist(),
        "parts": parts,
    }


def clip_length(address: ClipAddress) -> int:
    """Return how many frames of a clip have keypoints."""
    if address.entry.kind == "extraction":
        return sum(row.num_rows for row in _rows_of(address))
    return len(_clip_of_file(address))


def has_clip(address: ClipAddress) -> bool:
    """Return whether a run has keypoints of a clip; one that cannot be read has none."""
    with suppress(PosemillError, sqlite3.Error, OSError):
        return bool(_rows_of(address))
    return False


def read_whole(address: ClipAddress, most: int) -> PoseClip:
    """Return a clip of at most so many frames, an error for a longer one."""
    length = clip_length(address)
    if length > most:
        template = "clip {clip_id!r} has {length} frames; this is done for up to {most}"
        raise RunError(template, clip_id=address.clip_id, length=length, most=most)
    if address.entry.kind == "extraction":
        return open_run(address.entry.folder).clip(address.clip_id, address.split)
    return _clip_of_file(address)


def _strips(address: ClipAddress, length: int, first: PoseClip) -> dict[str, Any]:
    """Return over time where parts were found, how sure they are, and what is wrong."""
    clip = first if len(first) == length else read_whole(address, _MOST_MEASURED)
    clip = choose_person(clip, "main")  # the largest of each frame may be two people in turns
    scores = []
    for part in clip.skeleton.parts:
        points = slice(part.start, part.stop)
        means = clip.scores[:, points].sum(1) / np.maximum(clip.mask[:, points].sum(1), 1)
        scores.append(bin_means(means, STRIP_BINS).round(3).tolist())
    return {
        "present": [squeeze(column, STRIP_BINS).tolist() for column in clip.present.T],
        "scores": scores,
        "quality": clip_row(measure(clip)),
        "frame_indices": clip.frame_indices.tolist(),
    }


def _rows_of(address: ClipAddress) -> Sequence[ShardRows]:
    with read_ledger(address.entry.folder) as ledger:
        rows = list(ledger.rows(address.split, address.clip_id))
    if not rows:
        template = "there are no keypoints of a clip {clip_id!r} in split {split!r}"
        raise RunError(template, clip_id=address.clip_id, split=address.split)
    return rows


@lru_cache(maxsize=4)
def _clip_of(path: Path, mark: int, clip_id: str) -> PoseClip:
    for clip in ClipInput(path).clips():
        if clip.clip_id == clip_id:
            return dataclasses.replace(clip, points=clip.points.copy(), scores=clip.scores.copy())
    raise RunError("{name} has no clip {clip_id!r}", name=path.name, clip_id=clip_id)


def _clip_of_file(address: ClipAddress) -> PoseClip:
    """Return a clip of prepared data; only files that are there are looked at."""
    path = prepared_files(address.entry.folder).get(address.split)
    if path is None or path.is_symlink():
        raise RunError("there is no split {split!r}", split=address.split)
    return _clip_of(path, path.lstat().st_mtime_ns, address.clip_id)
