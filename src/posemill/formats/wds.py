"""WebDataset: one tar, a sample per clip: its arrays as `.npy`, the rest as `.json`.

The key is split and clip id with dots made underscores: WebDataset cuts names at the first dot.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from posemill.files import atomic_path
from posemill.formats.shared import contract
from posemill.formats.shared.contract import FRAME_ARRAYS, ClipStream, Format, Size
from posemill.formats.shared.json_text import fields_of, line_of, parse_json, record_of
from posemill.npz.mapped import check_array, read_npy
from posemill.records import PoseClip

_MAX_MEMBER_BYTES = 1 << 31


class WebDatasetFormat(Format):
    """One tar file, as the webdataset package reads it."""

    name = "webdataset"
    suffix = ".tar"
    layouts: tuple[str, ...] = ("holistic-543", contract.ANY)
    has_mask = True
    damage = (tarfile.TarError,)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one tar."""
        taken: set[str] = set()
        with atomic_path(path) as temporary, tarfile.open(temporary, "w") as tar:
            for clip in clips:
                key = _key_of(clip, clips.summary.num_clips, taken)
                info = line_of(record_of(clip) | {"posemill": clips.header(clip)}, clip.clip_id)
                for name, array in contract.arrays_of(clip, clips.asked).items():
                    buffer = io.BytesIO()
                    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
                    _add(tar, f"{key}.{name}.npy", buffer.getvalue())
                _add(tar, f"{key}.json", info.encode())

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
            raise ValueError(f"{member.name[:80]!r} claims {member.size} of {size} bytes")
        folder, _, name = member.name.rpartition("/")
        stem, _, ending = name.partition(".")
        handle = tar.extractfile(member)
        data = handle.read() if handle else b""
        if len(data) != member.size:
            raise ValueError(f"{member.name[:80]!r} is cut off")
        yield f"{folder}/{stem}", ending, data


def _clip_of(path: Path, key: str, sample: dict[str, bytes]) -> PoseClip:
    needed = {*(f"{name}.npy" for name in FRAME_ARRAYS), "json"}
    if missing := ", ".join(sorted(needed - sample.keys())):
        listed = ", ".join(sorted(sample))[:200] or "nothing"
        raise ValueError(f"sample {key[:80]!r} has no {missing}; it has {listed}")
    arrays = {name: read_npy(sample[f"{name}.npy"]) for name in FRAME_ARRAYS}
    record, points = parse_json(sample["json"]), arrays["keypoints"]
    check_array(points, f"keypoints of {key[:80]}", "f", ("frames", "points", 3))
    done = contract.header_fields(record["posemill"], points.shape[1], path)
    return contract.clip_of_arrays(arrays, **fields_of(record, len(points)) | done)
