"""JSON from strangers, JSON larger than memory, and what clips have beside points as JSON.

Our own files have one record per line inside a list, so that they can be read line by line; others
are loaded whole, up to a limit. A folder of ours has the list of its clips in `posemill.jsonl`: the
header in the first line, then a line per clip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.files import reading
from posemill.npz.clips import read_object, refuse_constant
from posemill.records import PoseClip, fields_of_recipe

INDEX = "posemill.jsonl"
MAX_JSON_BYTES = 1 << 28  # lists of nothing take twenty times as much memory
MAX_LINE_BYTES = MAX_JSON_BYTES


def parse_json(text: str | bytes) -> Any:
    """Return the value; an error of `CORRUPT` for anything broken, too deep, NaN or infinite."""
    return json.loads(text, parse_constant=refuse_constant)


def load_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return the value of a whole file, refusing one that is too large to hold."""
    size = path.stat().st_size
    if size > max_bytes:
        template = "{size} bytes of JSON in one value; expected at most {max_bytes}: split it"
        raise ContentError(template, size=size, max_bytes=max_bytes)
    return parse_json(path.read_bytes())


def read_line_list(path: Path, key: str) -> Iterator[Any]:
    """Yield the records of `"key": [`, one per line, without reading the rest into memory."""
    start = f'"{key}": ['.encode()
    with path.open("rb") as handle:
        lines = iter(partial(handle.readline, MAX_LINE_BYTES), b"")
        if not any(line.rstrip().endswith(start) for line in lines):
            raise ValueError(f"has no list {key!r}, or is cut off before it")
        for line in map(bytes.strip, lines):
            if len(line) >= MAX_LINE_BYTES - 2:
                raise ValueError(f"a record of {key!r} has {MAX_LINE_BYTES} bytes or more")
            if line.startswith(b"]"):
                return
            yield parse_json(line.removesuffix(b","))
    raise ValueError(f"is cut off in the list {key!r}")


def is_line_list(path: Path, key: str, *, line: int) -> bool:
    """Return True if a file has our lines: this one, from 0, opens a list, the next is a record."""
    with path.open("rb") as handle:
        *before, opening = (handle.readline(1 << 16) for _ in range(line + 1))
        first = handle.readline(MAX_LINE_BYTES)
    is_open = opening.endswith(f'"{key}": [\n'.encode())
    is_cut = len(first) == MAX_LINE_BYTES  # by us; whoever reads it says so
    is_record = first.startswith(b"{") and (is_cut or first.rstrip().endswith((b"}", b"},")))
    are_lines = all(text.endswith(b"\n") for text in before)
    return are_lines and is_open and (is_record or first.startswith(b"]"))


def numbers(values: Any, width: int, *, what: str) -> npt.NDArray[np.float64]:
    """Return `(rows, width)` from a flat list of finite numbers."""
    if not isinstance(values, list) or len(values) % width:
        raise ValueError(f"{what}: expected a list of {width} numbers a point")
    array = np.asarray(values if values else np.zeros(0))
    if array.ndim != 1 or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise ValueError(f"{what}: expected a flat list of finite numbers")
    return array.astype(np.float64).reshape(-1, width)


class NumberedList:
    """A list in a JSON file, a record a line, that `read_line_list` can read again."""

    def __init__(self, handle: IO[str]) -> None:
        self._handle, self._num_records = handle, 0

    def add(self, record: Mapping[str, Any], clip_id: str) -> int:
        """Write a record of a clip, with its number, from 1 on, as `id`; return that."""
        separator = ",\n" if self._num_records else "\n"
        self._num_records += 1
        record = {"id": self._num_records, **record}
        self._handle.write(separator + line_of(record, clip_id))
        return self._num_records


def line_of(record: Mapping[str, Any], clip_id: str, *, most: int | None = None) -> str:
    """Return a record of a clip as a line of JSON; ContentError if it does not go into one.

    `most` characters may be in it, by default what `read_line_list` takes.
    """
    try:
        line = json.dumps(record)
    except (TypeError, ValueError) as error:
        template = "clip {clip_id!r}: extra cannot be written as JSON: {error}"
        raise ContentError(template, clip_id=clip_id, error=error) from error
    most = MAX_LINE_BYTES - 5 if most is None else most
    if len(line) > most:
        template = (
            "clip {clip_id!r}: {num_bytes} bytes of JSON; expected at most {most}: cut it into "
            "several clips, or choose another format"
        )
        raise ContentError(template, clip_id=clip_id, num_bytes=len(line), most=most)
    return line


def info_of(clip: PoseClip) -> dict[str, Any]:
    """Return what a clip has beside its frames, for JSON."""
    return {"label": clip.label, "fps": clip.fps, "extra": dict(clip.extra)}


def info_text(clip: PoseClip) -> str:
    """Return `info_of` as JSON."""
    return line_of(info_of(clip), clip.clip_id)


def read_info(info: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return label, fps and extra of `info_of`, or of its JSON, for `make_clip`; types checked."""
    if not isinstance(info, Mapping):
        info = read_object(info or "{}")
    label, fps, extra = info.get("label"), info.get("fps"), info.get("extra", {})
    if not isinstance(extra, Mapping):
        raise ValueError(f"expected an object as extra, got {type(extra).__name__}")
    return {
        "label": None if label is None else str(label),
        "fps": None if fps is None else float(fps),
        "extra": extra,
    }


def record_of(clip: PoseClip) -> dict[str, Any]:
    """Return what a clip has beside its points, for JSON."""
    sizes, indices, num_frames = clip.sizes_wh, clip.frame_indices, len(clip)
    is_same = num_frames and (sizes == sizes[0]).all()
    is_usual = np.array_equal(indices, np.arange(num_frames))
    return {
        "clip_id": clip.clip_id,
        "split": clip.split,
        "num_frames": num_frames,
        "sizes_wh": sizes[0].tolist() if is_same else sizes.tolist(),
        "frame_indices": None if is_usual else indices.tolist(),
        "image_paths": list(clip.image_paths),
        **info_of(clip),
        "recipe": {
            "normalize": clip.normalized,
            "interpolate": clip.interpolated,
            "smooth": clip.smoothed,
        },
    }


def fields_of(record: dict[str, Any], num_frames: int) -> dict[str, Any]:
    """Return the fields of a clip from `record_of`, for `make_clip`."""
    if int(record["num_frames"]) != num_frames:
        raise ValueError(f"expected {record['num_frames']} frames, found {num_frames}")
    sizes, indices = np.asarray(record["sizes_wh"], np.int32), record["frame_indices"]
    is_same = sizes.ndim == 1 and sizes.size
    return {
        "clip_id": str(record["clip_id"]),
        "split": str(record["split"]),
        "sizes_wh": np.tile(sizes, (num_frames, 1)) if is_same else sizes.reshape(-1, 2),
        "frame_indices": np.asarray(range(num_frames) if indices is None else indices, np.int64),
        "image_paths": tuple(map(str, record["image_paths"])),
        **read_info(record),
        **fields_of_recipe(record.get("recipe")),
    }


def read_index(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the header, then the clips, of a folder of ours."""
    with (folder / INDEX).open("rb") as handle:
        while line := handle.readline(MAX_LINE_BYTES):
            record = parse_json(line)
            if not isinstance(record, dict):
                raise ValueError(f"{INDEX}: expected an object a line")
            place = str(record.get("place", ""))
            if not is_inside(place) or "\\" in place:
                raise ValueError(f"{INDEX}: {place!r} leads out of the folder")
            yield record


def header_in(folder: Path) -> dict[str, Any]:
    """Return the first line of a folder's index; empty if it has none."""
    if not (folder / INDEX).is_file():
        return {}
    with reading(folder / INDEX, "JSON"):
        return next(read_index(folder), {})


def indexed_clips(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield where each clip of a folder's index is, and its fields for `make_clip`."""
    for record in islice(read_index(folder), 1, None):
        yield folder / record["place"], fields_of(record, int(record["num_frames"]))


def is_inside(place: str) -> bool:
    """Return True if a relative path stays below the folder it is joined to."""
    path = PurePosixPath(place)
    return not path.is_absolute() and ".." not in path.parts
