"""JSON lines: what the file is, then a line for each clip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from posemill.files import atomic_path
from posemill.formats.shared.contract import (
    ANY,
    ClipStream,
    Format,
    Size,
    header_fields,
    make_clip,
)
from posemill.records import PoseClip

_FIELDS = ("clip_id", "split", "label", "fps", "image_paths")


class JsonLinesFormat(Format):
    """One text file; nothing is lost, points that were not found are null."""

    name = "jsonl"
    suffix = ".jsonl"
    layouts: tuple[str, ...] = ("holistic-143", ANY)

    def sniff(self, path: Path) -> bool:
        """Return True for a file whose first line says so."""
        if not path.is_file():
            return False
        with path.open("rb") as handle:
            return b'"format": "jsonl"' in handle.read(256)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write one file; under a temporary name until it is whole."""
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as handle:
            for clip in clips:
                if clips.is_first:
                    handle.write(json.dumps(clips.header()) + "\n")
                handle.write(json.dumps(_values_of(clip)) + "\n")

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips, one line at a time; `Format.read` makes broken lines a `FormatError`."""
        with path.open(encoding="utf-8") as handle:
            header = json.loads(next(handle, "{}"))
            for line in handle:
                yield _clip_of(path, json.loads(line), header)


def _values_of(clip: PoseClip) -> dict[str, Any]:
    # A float32 comes back as it was from the digits of its float64.
    points = np.where(np.isnan(clip.points), None, clip.points.astype(object))
    return {
        **{name: getattr(clip, name) for name in _FIELDS},
        "extra": dict(clip.extra),
        "frame_indices": clip.frame_indices.tolist(),
        "sizes_wh": clip.sizes_wh.tolist(),
        "points": points.tolist(),
        "scores": clip.scores.tolist(),
    }


def _clip_of(path: Path, values: dict[str, Any], header: dict[str, Any]) -> PoseClip:
    points = np.array(values["points"], np.float32)  # None becomes NaN
    return make_clip(
        points,
        np.array(values["scores"], np.float32),
        ~np.isnan(points[..., 0]),
        sizes_wh=np.array(values["sizes_wh"], np.int32),
        frame_indices=np.array(values["frame_indices"], np.int64),
        image_paths=tuple(values["image_paths"]),
        **{name: values[name] for name in ("clip_id", "split", "label", "fps", "extra")},
        **header_fields(header, points.shape[1], path),
    )
