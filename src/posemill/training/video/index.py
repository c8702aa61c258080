"""Which clips there are: a list, what `posemill frames` wrote, or a folder of videos or frames."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from posemill.decoders.opening import VIDEO_SUFFIXES, suffix_of
from posemill.decoders.sampling import Sampling
from posemill.errors import RunError, SourceError
from posemill.records import Clip, label_of_folder, usual_split
from posemill.runs import frame_index
from posemill.sources import find_clips
from posemill.sources.lists import read_list


@dataclass(frozen=True)
class StoredClip(Clip):
    """A clip whose frames `posemill frames` wrote."""

    size_wh: tuple[int, int] = (0, 0)
    fps: float | None = None  # of its frames, where that is known
    suffix: str = ""  # of its pictures, `000000.jpg` and so on; empty in a pack
    offset: int = 0  # where it begins in its pack, in bytes


def key_of(clip: Clip) -> tuple[str, str]:
    """Return split and id: ids are unique within a split only."""
    return usual_split(clip.split), clip.clip_id


def place_of(clip: Clip) -> tuple[str, int, float, float | None]:
    """Return where a clip lies: its path, and the part of it."""
    offset = clip.offset if isinstance(clip, StoredClip) else 0
    return clip.path, offset, clip.start_seconds, clip.end_seconds


def fingerprint(clip: Clip) -> str:
    """Return a digest of where a clip lies, and of the size and time of its files as they are."""
    path = Path(clip.path)
    # The time of a folder is not that of the pictures in it.
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    text = json.dumps([str(path.absolute()), facts, *place_of(clip)[1:]])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Index(NamedTuple):
    """The clips that are there, and those that are not."""

    clips: list[Clip]
    missing: list[Clip]

    def expect_all(self, where: object) -> None:
        """Raise `SourceError` if a clip is missing; `where` is what names them."""
        for clip in self.missing:
            template = "{path} is not there: clip {clip_id!r} of {index}"
            raise SourceError(template, path=clip.path, clip_id=clip.clip_id, index=where)


def read_index(index: str | os.PathLike[str] | Iterable[Clip] | Index) -> Index:
    """Return the clips that a path or a list of `Clip`s names, as `VideoClips` takes them.

    Nothing is decoded. An `Index` is returned as it is. Of a folder of videos or of folders of
    pictures, the first folder is that of the split, then comes one for each label. No clips, or a
    row that does not say where one is, are a `SourceError`.
    """
    if isinstance(index, Index):
        return index
    if isinstance(index, (str, os.PathLike)):
        path = Path(index)
        if (path / frame_index.INDEX_NAME).is_file():
            path = path / frame_index.INDEX_NAME
        clips, where = _list_clips(path), str(path)
    else:
        clips, where = list(index), "index"
    if others := [clip for clip in clips if not isinstance(clip, Clip)]:
        kind = type(others[0]).__name__
        raise TypeError(f"index: expected a path or posemill.Clip objects, got {kind}")
    if not clips:
        raise SourceError("{where}: expected clips, got none", where=where)
    exists = {path: Path(path).exists() for path in {clip.path for clip in clips}}
    found = Index([], [])
    for clip in clips:
        (found.clips if exists[clip.path] else found.missing).append(clip)
    if not found.clips:
        template = "{where}: none of its {num_missing} clips is there; the first should be {path}"
        raise SourceError(template, where=where, num_missing=len(clips), path=clips[0].path)
    return found


def _list_clips(path: Path) -> list[Clip]:
    """Return the clips that a path names, whether their files are there or not."""
    if (path / "ledger.sqlite").is_file():  # `posemill frames` has begun, and not ended
        return _read_frames_index(path)
    if path.is_dir() or suffix_of(path.name) in VIDEO_SUFFIXES:
        return [
            dataclasses.replace(clip, label=clip.label or label_of_folder(clip.clip_id) or None)
            for clip in find_clips(path).clips
        ]
    if not path.exists():
        raise SourceError(
            "{path} is not there: expected a list of clips, a video or a folder", path=path
        )
    with path.open("rb") as handle:
        is_of_frames = b"frame_indices" in handle.readline(1 << 16)
    return _read_frames_index(path) if is_of_frames else [clip for _, clip in read_list(str(path))]


def _read_frames_index(path: Path) -> list[Clip]:
    """Return the clips of what `posemill frames` wrote."""
    try:
        rows = frame_index.read_index(path)
    except RunError as error:
        raise SourceError(error.sentence) from error
    return [
        StoredClip(
            row.clip_id,
            str(row.path),
            "frames",
            row.split or "all",
            row.num_frames,
            label=row.label,
            extra=row.extra,
            size_wh=(row.width, row.height),
            fps=row.fps,
            suffix="" if row.format == "rgb" else row.format,
            offset=row.offset or 0,
        )
        for row in rows
    ]


def lengths_of(clips: Sequence[Clip], sampling: Sampling) -> list[int] | None:
    """Return how many frames are taken of each clip; None where only opening them would tell."""
    if sampling.num_frames is not None:
        return [sampling.num_frames] * len(clips)
    counts = [clip.num_frames for clip in clips]
    if sampling.kind == "fps" or not all(counts):
        return None
    return [len(sampling.indices(count)) for count in counts if count]
