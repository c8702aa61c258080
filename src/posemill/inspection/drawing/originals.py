"""The pictures the keypoints were found on, where they still are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from posemill.decoders.pictures import read_picture
from posemill.errors import DecodeError, PosemillError
from posemill.files import readable
from posemill.inspection.drawing.placing import model_bounds
from posemill.records import Clip, Frame, PoseClip
from posemill.sources import LAYOUTS, find_clips
from posemill.sources.reading import read_clip

_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")  # as a run writes a byte that is not UTF-8


@dataclass(frozen=True)
class Place:
    """A dataset's folder or file, and how it was read: layout and decoder."""

    root: Path
    layout: str = "auto"
    decoder: str = "pyav"


class Originals:
    """Finds and reads the original frames of clips; what is gone is counted, not raised.

    Args:
        facts: A run's manifest, which says where the datasets were when the keypoints were found (a
            merged run has several).
        moved_to: Where they are now.
        follows_links: Without it a link that leads out of its place is not opened.
    """

    def __init__(
        self,
        facts: Mapping[str, Any] = MappingProxyType({}),
        *,
        moved_to: Path | None = None,
        follows_links: bool = True,
    ) -> None:
        if moved_to is not None and not moved_to.exists():
            template = "{--originals:{moved_to}}: no such file or folder"
            raise PosemillError(template, moved_to=moved_to)
        self.places, self.moved_to = tuple(_recorded_places(facts)), moved_to
        self.follows_links = follows_links
        self.on_frame: Callable[[], None] = lambda: None  # called before each frame is handed out
        self.num_read = 0
        self.num_gone = 0
        self.num_unplaced = 0  # frames of normalised keypoints, for which no picture is looked for
        self.first_reason = ""

    def frames(self, clip: PoseClip, indices: Sequence[int]) -> Iterator[tuple[int, Frame | None]]:
        """Yield each of the rows (in ascending order) with its frame, None where it is gone.

        Also None for all rows of a clip that was centred and scaled for a model: it is not drawn
        on its pictures.
        """
        rows = sorted(set(indices))
        is_placed = model_bounds(clip) is None
        frames: Iterator[tuple[int, Frame | None]] = ((row, None) for row in rows)
        if is_placed and clip.image_paths:
            frames = ((row, self._read(clip, clip.image_paths[row])) for row in rows)
        elif is_placed:
            frames = self._read_video(clip, rows)
        for row, frame in frames:
            self.num_unplaced += not is_placed
            self.num_read += frame is not None
            self.num_gone += is_placed and frame is None
            self.on_frame()
            yield row, frame

    def _read(self, clip: PoseClip, name: str) -> Frame | None:
        candidates = [_on_disk(path) for path in self._candidates(clip, Path(name))]
        try:
            if not candidates:
                raise PosemillError(
                    "{name!r} is not below the folder that the keypoints were found in, so it is "
                    "not opened; name its folder by {--originals}",
                    name=name,
                )
            return read_picture(next((path for path in candidates if path.exists()), candidates[0]))
        except PosemillError as error:
            self._note(error)
            return None

    def _candidates(self, clip: PoseClip, path: Path) -> Iterator[Path]:
        """Yield where a picture may be: below the new place, or below the old roots.

        Names come from the file: one that leads anywhere else is left out.
        """
        rests = {root: _inside(root, path) for root in self._roots}
        places: list[tuple[Path, Path]] = []  # a root, and a path that must be below it
        if (new := self.moved_to) is not None:
            places += [(new, new / rest) for rest in rests.values() if rest is not None]
            places += [(new, below) for below in _below(new, clip, path)]
        places += [(root, root / rest) for root, rest in rests.items() if rest is not None]
        if not path.is_absolute():
            places += [(root, below) for root in rests for below in _below(root, clip, path)]
        for root, place in places:
            plain_root, plain_place = (
                os.path.normpath(readable(str(path))) for path in (root, place)
            )
            is_below = Path(plain_place).is_relative_to(plain_root)  # whatever `..` are in it
            if is_below and (self.follows_links or _stays_in(root, place)):
                yield place

    @cached_property
    def _roots(self) -> list[Path]:
        """The folders that pictures may be opened in; of a list, what its rows name as well."""
        roots: list[Path] = []
        for place in self.places:
            is_file = _on_disk(place.root).is_file()
            roots.append(place.root.parent if is_file else place.root)
        if any(place.layout == "list" for place in self.places):
            roots += [Path(clip.path) for clip, _ in self._sources.values()]
        return list(dict.fromkeys(roots))

    def _read_video(self, clip: PoseClip, rows: list[int]) -> Iterator[tuple[int, Frame | None]]:
        rows_of: dict[int, list[int]] = {}  # by number in the source
        for row in rows:
            rows_of.setdefault(int(clip.frame_indices[row]), []).append(row)
        try:
            source, decoder = self._source(clip.split, clip.clip_id)
            numbers = np.array(sorted(rows_of), np.int64)
            for frame in read_clip(source, decoder=decoder, numbers=numbers):
                if isinstance(frame.content, DecodeError):
                    raise frame.content
                for row in rows_of.pop(frame.frame_index):
                    yield row, frame.content
        except PosemillError as error:
            self._note(error)
        for row in sorted(chain.from_iterable(rows_of.values())):
            yield row, None

    def _source(self, split: str, clip_id: str) -> tuple[Clip, str]:
        """Return a clip of the places, and its decoder."""
        source, decoder = self._sources.get((split, clip_id), (None, ""))
        roots = [self.moved_to] if self.moved_to else [place.root for place in self.places]
        if source is None:
            where = ", ".join(map(str, roots)) or "the source, which is not recorded"
            raise PosemillError("no clip {clip_id!r} in {where}", clip_id=clip_id, where=where)
        if not self.follows_links and not any(_stays_in(root, Path(source.path)) for root in roots):
            template = "{path} leads out of its dataset, so it is not opened"
            raise PosemillError(template, path=source.path)
        return source, decoder

    def video_path(self, split: str, clip_id: str) -> Path:
        """Return the file of a clip; an error where it is not to be found, or not a video."""
        source, _ = self._source(split, clip_id)
        if source.kind != "video":
            raise PosemillError("clip {clip_id!r} is not a video", clip_id=clip_id)
        return Path(source.path)

    @cached_property
    def _sources(self) -> dict[tuple[str, str], tuple[Clip, str]]:
        """The clips of all places with their decoders, by split and name."""
        sources: dict[tuple[str, str], tuple[Clip, str]] = {}
        places = self.places
        if self.moved_to:
            decoders = {place.decoder for place in places}
            decoder = decoders.pop() if len(decoders) == 1 else Place.decoder
            places = (Place(self.moved_to, decoder=decoder),)
        for place in places:
            try:
                clips = find_clips(_on_disk(place.root), layout=place.layout)
            except PosemillError as error:
                self._note(error)
                continue
            sources |= {(clip.split, clip.clip_id): (clip, place.decoder) for clip in clips}
        return sources

    def _note(self, error: PosemillError) -> None:
        self.first_reason = self.first_reason or str(error)


def _on_disk(path: Path) -> Path:
    r"""Return a path as the file system has it, where a run wrote `\xNN` for bytes of its names."""
    if not _BYTE.search(str(path)) or path.exists():
        return path
    real = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        real /= part
        if not real.exists():
            # So Python spells the byte 0xNN of a name; a name with the letters themselves exists.
            real = real.with_name(_BYTE.sub(lambda hit: chr(0xDC00 + int(hit[1], 16)), part))
    return real


def _inside(root: Path, path: Path) -> Path | None:
    """Return what of a picture's path is inside of a dataset's root; None if it is outside.

    A path that is not absolute began where the extraction was started, which is not recorded: it
    is taken as inside where it begins with the last names of the root.
    """
    above = Path(readable(str(root)))
    if path.is_absolute():
        return path.relative_to(above) if path.is_relative_to(above) else None
    parts = [part for part in path.parts if part != ".."]
    for count in range(len(parts) - 1, 0, -1):
        if above.parts[-count:] == tuple(parts[:count]):
            return Path(*parts[count:])
    return None


def _stays_in(root: Path, path: Path) -> bool:
    """Return whether a path stays below a root, or beside a file, when links are followed."""
    above = _on_disk(root).resolve()
    return _on_disk(path).resolve().is_relative_to(above.parent if above.is_file() else above)


def _below(root: Path, clip: PoseClip, path: Path) -> Iterator[Path]:
    """Yield the usual places of a clip's picture below a dataset's root."""
    parts = [part for part in path.parts if part not in ("..", path.anchor)]
    for start in range(len(parts) - 1):
        yield root.joinpath(*parts[start:])
    yield root / clip.clip_id / path.name
    yield root / clip.split / clip.clip_id / path.name
    yield root / path.name


def _recorded_places(facts: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the sources a manifest names, its own and those of the runs it was merged from."""
    source = facts.get("source")
    if not isinstance(source, Mapping):
        return
    if source.get("path"):
        layout, options = str(source.get("layout") or "auto"), facts.get("options")
        layout = layout if layout in LAYOUTS else "auto"
        decoder = options.get("decoder") if isinstance(options, Mapping) else None
        yield Place(Path(str(source["path"])), layout, str(decoder or Place.decoder))
    for made_of in source.get("inputs") or ():
        if isinstance(made_of, Mapping) and isinstance(made_of.get("manifest"), Mapping):
            yield from _recorded_places(made_of["manifest"])
