"""WebDataset: one tar, a sample per clip.

`<key>.keypoints.npy` (T, K, 3), `<key>.mask.npy`, `<key>.scores.npy`, `<key>.sizes_wh.npy`,
`<key>.frame_index.npy` and `<key>.json` (ids, label, fps, paths, recipe). The key is split and
clip id with dots made underscores: WebDataset cuts names at the first dot.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError
from posemill.files import atomic_path
from posemill.formats.shared.contract import (
    ANY,
    ClipStream,
    Format,
    Recipe,
    Size,
    make_clip,
    skeleton_for,
)
from posemill.formats.shared.folders import fields_of, record_of
from posemill.formats.shared.json_text import parse_json
from posemill.geometry import fill_missing
from posemill.npz.mapped import read_npy
from posemill.records import PoseClip, fields_of_recipe

_MAX_MEMBER_BYTES = 1 << 31
_ARRAYS = ("keypoints", "mask", "scores", "sizes_wh", "frame_index")


class WebDatasetFormat(Format):
    """One tar file, as the webdataset package reads it."""

    name = "webdataset"
    suffix = ".tar"
    layouts: tuple[str, ...] = ("holistic-543", ANY)
    has_mask = True
    damage = (tarfile.TarError,)

    def sniff(self, path: Path) -> bool:
        """Return True for a tar file."""
        return path.suffix.lower() == ".tar" and path.is_file()

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one tar."""
        taken: set[str] = set()
        with atomic_path(path) as temporary, tarfile.open(temporary, "w") as tar:
            for clip in clips:
                key = _key_of(clip, clips.summary.num_clips, taken)
                info = json.dumps(record_of(clip) | {"posemill": clips.header(clip)}).encode()
                for name, array in _arrays_of(clip, clips.asked).items():
                    _add(tar, f"{key}.{name}.npy", _npy_bytes(array))
                _add(tar, f"{key}.json", info)

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield a clip per sample."""
        with tarfile.open(path, "r:") as tar:
            for key, members in groupby(_members(path, tar), key=lambda member: member[0]):
                yield _clip_of(path, key, {ending: data for _, ending, data in members})


def _key_of(clip: PoseClip, number: int, taken: set[str]) -> str:
    key = f"{clip.split}/{clip.clip_id}".replace(".", "_").replace("\\", "_").strip("/")
    if key in taken or "//" in key:
        key = f"{clip.split}/clip_{number:08d}".replace(".", "_")
    taken.add(key)
    return key


def _arrays_of(clip: PoseClip, recipe: Recipe) -> dict[str, npt.NDArray[Any]]:
    points = fill_missing(clip.points, recipe.fill or "zero")
    values = (points, clip.mask, clip.scores, clip.sizes_wh, clip.frame_indices)
    return dict(zip(_ARRAYS, values, strict=True))


def _npy_bytes(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def _members(path: Path, tar: tarfile.TarFile) -> Iterator[tuple[str, str, bytes]]:
    """Yield key, ending and content of the plain files in a tar; nothing is unpacked to disk."""
    size = path.stat().st_size
    for member in tar:
        if not member.isreg() or member.issparse():
            continue
        if member.size > min(size, _MAX_MEMBER_BYTES):
            raise FormatError(
                "{path}: {member_name!r} claims {size} of {num_bytes} bytes",
                path=path,
                member_name=member.name[:80],
                size=member.size,
                num_bytes=size,
            )
        folder, _, name = member.name.rpartition("/")
        stem, _, ending = name.partition(".")
        handle = tar.extractfile(member)
        data = handle.read() if handle else b""
        if len(data) != member.size:
            raise FormatError(
                "{path}: {member_name!r} is cut off", path=path, member_name=member.name[:80]
            )
        yield f"{folder}/{stem}", ending, data


def _clip_of(path: Path, key: str, sample: dict[str, bytes]) -> PoseClip:
    wanted = [*(f"{name}.npy" for name in _ARRAYS), "json"]
    missing = [name for name in wanted if name not in sample]
    if missing:
        raise FormatError(
            "{path}: sample {key!r} has no {missing}; it has {members}",
            path=path,
            key=key[:80],
            missing=", ".join(missing),
            members=", ".join(sorted(sample))[:200] or "nothing",
        )
    arrays = {name: read_npy(sample[f"{name}.npy"]) for name in _ARRAYS}
    record = parse_json(sample["json"])
    points = arrays["keypoints"]
    if points.ndim != 3 or arrays["mask"].dtype != np.bool_:
        raise FormatError(
            "{path}: sample {key!r}: keypoints {points_shape}, or no mask",
            path=path,
            key=key[:80],
            points_shape=points.shape,
        )
    if arrays["mask"].shape != points.shape[:2] or arrays["scores"].shape != points.shape[:2]:
        raise FormatError(
            "{path}: sample {key!r}: mask, scores and keypoints do not fit", path=path, key=key[:80]
        )
    fields = fields_of(record, len(points))
    fields["sizes_wh"] = arrays["sizes_wh"].astype(np.int32)
    fields["frame_indices"] = arrays["frame_index"].astype(np.int64)
    fields |= fields_of_recipe(record["posemill"].get("recipe"))
    name = skeleton_for(points.shape[1], path, record["posemill"]["skeleton"])
    return make_clip(path, points, arrays["scores"], arrays["mask"], skeleton_name=name, **fields)
