"""Which clips there are: a list, what `posemill frames` wrote, or a folder of videos or frames."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from posemill.decoders.opening import VIDEO_SUFFIXES, suffix_of
from posemill.errors import RunError, SourceError
from posemill.records import Clip, label_of_folder, usual_split
from posemill.runs import frame_index
from posemill.sources import find_clips
from posemill.sources.lists import read_list

_LEDGER_NAME = "ledger.sqlite"


@dataclass(frozen=True, slots=True)
class ClipPlace:
    """A clip, and where its frames are.

    Args:
        path: A video, a folder of pictures, or a pack.
        kind: `video`, `frames` (pictures) or `packed`.
        split: `all` where there are none.
        label: Empty where it has none.
        num_frames, fps: Where they are known without opening it.
        size_wh: Width and height of its frames; always known of a pack.
        offset: Where it begins in its pack, in bytes.
        suffix: Of its pictures, `000000.jpg` and so on; empty where their names are to be looked
            up.
        start_seconds, end_seconds: The part of a video.
        extra: Further columns of a list.
    """

    clip_id: str
    path: str
    kind: str
    split: str = "all"
    label: str = ""
    num_frames: int | None = None
    fps: float | None = None
    size_wh: tuple[int, int] | None = None
    offset: int = 0
    suffix: str = ""
    start_seconds: float = 0.0
    end_seconds: float | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Split and id: ids are unique within a split only."""
        return usual_split(self.split), self.clip_id


class Index(NamedTuple):
    """The clips that are there, and those that are not."""

    clips: list[ClipPlace]
    missing: list[ClipPlace]


def read_index(index: str | os.PathLike[str] | Iterable[Clip] | Index) -> Index:
    """Return the clips that a path or a list of `Clip`s names. Nothing is decoded.

    Args:
        index: A table (CSV or TSV with a column `path`, relative to it; `split`, `label`,
            `clip_id`, `start_seconds`, `end_seconds` where it has them), a folder that
            `posemill frames` wrote, a folder of videos or of folders of pictures (the folder of a
            split first, then one for each label, where there are such), or `Clip`s; an `Index` is
            returned as it is.

    Raises:
        SourceError: There are no clips, or a row does not say where one is.
    """
    if isinstance(index, Index):
        return index
    if not isinstance(index, (str, os.PathLike)):
        return _of_clips(index)
    path = Path(index)
    if (path / frame_index.INDEX_NAME).is_file():
        path = path / frame_index.INDEX_NAME
    elif (path / _LEDGER_NAME).is_file():  # `posemill frames` has begun, and not ended
        return _of_frames(path)
    if path.is_dir() or suffix_of(path.name) in VIDEO_SUFFIXES:
        clips = find_clips(path).clips
        labels = (clip.label or label_of_folder(clip.clip_id) for clip in clips)
        named = map(lambda clip, label: dataclasses.replace(clip, label=label), clips, labels)
        return _of_clips(named, str(path))
    if not path.exists():
        raise SourceError(
            "{path} is not there: expected a list of clips, a video or a folder", path=path
        )
    with path.open("rb") as handle:
        is_of_frames = b"frame_indices" in handle.readline(1 << 16)
    if is_of_frames:
        return _of_frames(path)
    return _of_clips((clip for _, clip in read_list(str(path))), str(path))


def _of_frames(path: Path) -> Index:
    """Return the clips of what `posemill frames` wrote."""
    try:
        rows = frame_index.read_index(path)
    except RunError as error:
        raise SourceError(error.sentence) from error
    places = [
        ClipPlace(
            row.clip_id,
            str(row.path),
            "packed" if row.is_packed else "frames",
            row.split or "all",
            row.label or "",
            row.num_frames,
            row.fps,
            (row.width, row.height),
            row.offset or 0,
            "" if row.is_packed else row.format,
            extra=row.extra,
        )
        for row in rows
    ]
    return _look_for(places, str(path))


def _of_clips(clips: Iterable[Clip], where: str = "index") -> Index:
    places = []
    for clip in clips:
        if not isinstance(clip, Clip):
            raise TypeError(
                f"index: expected a path or posemill.Clip objects, got {type(clip).__name__}"
            )
        place = ClipPlace(
            clip.clip_id,
            clip.path,
            "video" if clip.kind == "video" else "frames",
            clip.split,
            clip.label or "",
            clip.num_frames,
            start_seconds=clip.start_seconds,
            end_seconds=clip.end_seconds,
            extra=clip.extra,
        )
        places.append(place)
    return _look_for(places, where)


def _look_for(places: list[ClipPlace], where: str) -> Index:
    """Return the clips divided by whether their files are there; none of them is an error."""
    exists = {path: Path(path).exists() for path in {place.path for place in places}}
    index = Index([], [])
    for place in places:
        (index.clips if exists[place.path] else index.missing).append(place)
    if index.clips:
        return index
    if not places:
        raise SourceError("{where}: expected clips, got none", where=where)
    raise SourceError(
        "{where}: none of its {num_missing} clips is there; the first should be {path}",
        where=where,
        num_missing=len(places),
        path=places[0].path,
    )
