"""Clips out of files: npz with `keypoints` and `video_ids` (or lengths, labels), CSV of numbers."""

from __future__ import annotations

import csv
import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from posemill.errors import TrainingError
from posemill.files import near_path, reading, sha256_of
from posemill.npz.clips import NpzClips, read_npz_clips
from posemill.npz.mapped import MappedNpz, open_npz
from posemill.places import uri_of
from posemill.places.cache import fetched
from posemill.records import SPLIT_NAMES
from posemill.skeletons import guess_skeleton, is_skeleton
from posemill.tables import find_encoding
from posemill.training.config.data_settings import DataSettings
from posemill.training.config.kinds import VIDEO, kind_of
from posemill.training.data.cache import verify_once

_SPLITS = (*SPLIT_NAMES, "all")


@lru_cache(maxsize=8)
def _local(data: str) -> str:
    """Return where the data is on this machine."""
    uri = uri_of(data)
    if uri is None:
        return data
    folder, _, name = uri.rpartition("/")
    return f"{fetched(folder)}/{name}" if "{split}" in name else str(fetched(uri))


def refuse_missing(data: str) -> None:
    """Raise `TrainingError` for one path on this machine that is not there."""
    path = Path(data)
    if "{split}" not in data and uri_of(data) is None and not path.exists():
        raise TrainingError(
            "no data at {path}: expected what `posemill prepare` or `posemill frames` "
            "wrote, an npz, or a list or a folder of videos{hint}",
            path=path,
            hint=near_path(path),
        )


def find_files(data: str) -> dict[str, Path]:
    """Return the data file of each split.

    `data` is a folder with `{split}_keypoints.npz` (or `{split}.npz`), a pattern with `{split}` in
    it, or one .npz or .csv file (split `all`, or the split its name begins with); or the URI of
    these.
    """
    data = _local(data)
    if "{split}" in data:
        paths = {split: Path(data.replace("{split}", split)) for split in _SPLITS}
        found = {split: path for split, path in paths.items() if path.is_file()}
        if not found:
            raise TrainingError(
                "no file {data} for any split of {splits}", data=data, splits=", ".join(_SPLITS)
            )
        return found
    path = Path(data)
    if path.is_file():
        stem = path.stem.removesuffix("_keypoints")
        return {stem if stem in _SPLITS else "all": path}
    refuse_missing(data)
    files = sorted(path.glob("*_keypoints.npz")) or sorted(path.glob("*.npz"))
    if not files:
        raise TrainingError(
            "{path}: expected files such as train_keypoints.npz, found no npz; run: "
            "posemill prepare RUN --out FOLDER",
            path=path,
        )
    return {file.stem.removesuffix("_keypoints"): file for file in files}


def read_all(options: DataSettings) -> dict[str, NpzClips]:
    """Return the clips of the file of each split; see `find_files` and `read_clips`."""
    return {
        split: read_clips(
            path, unit=options.unit, csv_dims=options.csv_dims, csv_frames=options.csv_frames
        )
        for split, path in find_files(options.path).items()
    }


def read_clips(
    path: Path, *, unit: str = "clip", csv_dims: int = 2, csv_frames: int = 1
) -> NpzClips:
    """Return the clips of an .npz or .csv file; settings as in `DataSettings`."""
    if path.suffix == ".csv":
        return _read_csv(path, csv_dims, csv_frames)
    if path.suffix.lower() == ".npz":
        return read_npz_clips(open_npz(path), unit=unit)
    raise TrainingError(
        "{path}: expected .npz or .csv, got {suffix}", path=path, suffix=path.suffix or "no ending"
    )


def skeleton_of(clips: NpzClips) -> str | None:
    """Return the skeleton that a file names or its number of points tells; None of a CSV."""
    if not isinstance(clips.arrays, MappedNpz):
        return None
    name = clips.header.get("skeleton")
    if name is not None and not is_skeleton(name):
        raise TrainingError(
            "{path} says its skeleton is {skeleton!r}, which is not known here; install "
            "the package of the engine that brings it",
            path=clips.path,
            skeleton=str(name)[:80],
        )
    return name or guess_skeleton(clips.arrays["keypoints"].shape[1], clips.path)


def content_key_of(clips: NpzClips, folder: Path | None = None) -> str:
    """Return a digest of the clips of a file; `folder` notes which files were read through."""
    if isinstance(clips.arrays, MappedNpz):
        # Its key is made of the checksums it carries: they must be those of the bytes in it.
        verify_once(clips.path, clips.arrays.verify, folder=folder)
        key = clips.arrays.content_key()
    else:
        key = sha256_of(clips.path)
    return f"{key}-{hashlib.sha256(clips.offsets.tobytes()).hexdigest()[:16]}"


def _read_csv(path: Path, dims: int, frames: int) -> NpzClips:
    """Rows of a label and then `frames * points * dims` numbers, with or without a header."""
    with (
        reading(path, "CSV", csv.Error),
        path.open(encoding=find_encoding(path) or "utf-8", newline="") as handle,
    ):
        rows = [row for row in csv.reader(handle) if row]
    if rows and not _is_number(rows[0][-1]):
        rows = rows[1:]
    if rows and not all(map(_is_number, rows[0][1:])):
        template = (
            "{path}: expected keypoints, a label and numbers in each row, got {text!r}; of videos "
            "expected a list with a column path"
        )
        if kind_of(str(path)) == VIDEO:
            template = (
                "{path} is a list of videos; expected keypoints, which are found by: posemill "
                "extract {path!q} --out RUN"
            )
        raise TrainingError(template, path=path, text=",".join(rows[0])[:60])
    width = len(rows[0]) - 1 if rows else 0
    if not width or width % (dims * frames):
        raise TrainingError(
            "{path}: expected rows of a label and a multiple of {multiple} numbers ({frames} "
            "frames of {dims} numbers a point), got {width}; posemill train sets both by "
            "{--csv-frames} and {--csv-dims}",
            path=path,
            multiple=dims * frames,
            frames=frames,
            dims=dims,
            width=width,
        )
    for number, row in enumerate(rows, 1):
        if len(row) != width + 1 or not all(map(_is_number, row[1:])):
            template = "{path}, row {number}: expected a label and {width} numbers"
            raise TrainingError(template, path=path, number=number, width=width)
    numbers = np.asarray([row[1:] for row in rows], np.float32)
    points = numbers.reshape(len(rows) * frames, -1, dims)
    return NpzClips(
        path,
        {"keypoints": points, "mask": np.ones(points.shape[:2], bool)},
        header={},
        offsets=np.arange(len(rows) + 1, dtype=np.int64) * frames,
        clip_ids=tuple(f"row{index}" for index in range(len(rows))),
        splits=("",) * len(rows),
        labels=tuple(row[0] for row in rows),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
