"""Frames to pictures or packed bytes: what the workers of `frames` do with what they read."""

from __future__ import annotations

import json
import os
import re
import struct
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from posemill.config import FramesConfig
from posemill.decoders.pictures import encode_picture, resize_frame
from posemill.decoders.stream_pyav import scaled_wh
from posemill.errors import DecodeError
from posemill.files import sync_files
from posemill.jobs.extract.job import Lane, Sink
from posemill.jobs.frames.places import clip_parts, read_packs
from posemill.records import Frame
from posemill.runs.events import Piece, Shard
from posemill.runs.frame_index import picture_name, ranges_of
from posemill.runs.queries import Unit

_PICTURE = re.compile(r"(\d{6,})\.(jpg|png|webp)")


@dataclass
class Kept:
    """How many frames of a clip are written, the size of all, and for how many there is room."""

    num_frames: int = 0
    size_wh: tuple[int, int] = (0, 0)
    room: int | None = None

    def copy(self) -> Kept:
        """Return one that later frames do not change."""
        return replace(self)

    def to_bytes(self) -> bytes:
        """Return it as plain bytes."""
        return struct.pack("<qii", self.num_frames, *self.size_wh)


class FrameSink(Sink):
    """What pictures and packs have in common. All frames of a clip have the size of its first."""

    def __init__(self, config: FramesConfig) -> None:
        self.writes_to, self._folder = str(config.out), config.out
        self._size = config.target_size

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is, ready to be written on."""
        if unit.state is None:
            return Kept()
        num_frames, width, height = struct.unpack("<qii", unit.state)
        return Kept(num_frames, (width, height))

    def compute(self, frames: list[Frame], states: list[Kept] | None) -> Sequence[Any]:
        """Return what is written of each frame."""
        return [self._shape(frame, kept) for frame, kept in zip(frames, states or (), strict=True)]

    @abstractmethod
    def _shape(self, frame: Frame, kept: Kept) -> Any:
        """Return what is written of a frame, in the size of its clip."""

    def put(self, lane: Lane, result: Any) -> int:
        """Write a frame behind the last one of its clip; return its bytes on the disk."""
        kept: Kept = lane.state
        num_bytes = self._write(lane.unit, kept, result)
        kept.num_frames += 1
        return num_bytes

    @abstractmethod
    def _write(self, unit: Unit, kept: Kept, data: Any) -> int:
        """Write one frame at its place; return its bytes on the disk."""

    def commit(self, name: str, lanes: Sequence[Lane]) -> Shard:
        """Make all that was written durable; say which frames, for the index."""
        self._flush()
        pieces = tuple(map(_piece_of, lanes))
        num_bytes = sum(written for lane in lanes for _, _, written in lane.rows)
        return Shard(name, sum(piece.num_rows for piece in pieces), num_bytes, pieces)

    @abstractmethod
    def _flush(self) -> None:
        """Make what was written since the last call durable."""


def _piece_of(lane: Lane) -> Piece:
    kept, unit, num_rows = lane.state, lane.unit, len(lane.rows)
    numbers = [lane.reader.source_number(index) for index, _, _ in lane.rows]
    note = {"frames": ranges_of(numbers), "size_wh": kept.size_wh, "fps": lane.reader.fps}
    first, before = lane.rows[0][0], kept.num_frames - num_rows
    return Piece(unit.clip_no, first, before, num_rows, unit.unit_no, json.dumps(note))


class PictureSink(FrameSink):
    """A folder for each clip, a picture for each frame."""

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self._format, self._quality = config.format, config.quality
        self._clip_folder, self._has_folder = self._folder, False
        self._written: list[Path] = []

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is; what lies beyond was not committed and goes."""
        kept = super().begin(unit)
        self._clip_folder = self._folder.joinpath(*clip_parts(unit.clip))
        self._has_folder = self._clip_folder.is_dir()
        for entry in self._clip_folder.iterdir() if self._has_folder else ():
            name = _PICTURE.fullmatch(entry.name)
            if name and int(name[1]) >= kept.num_frames:
                entry.unlink()
        return kept

    def _shape(self, frame: Frame, kept: Kept) -> bytes:
        if not kept.num_frames:
            kept.size_wh = scaled_wh((frame.shape[1], frame.shape[0]), self._size)
        resized = resize_frame(frame, kept.size_wh)
        return encode_picture(resized, self._format, quality=self._quality)

    def _write(self, unit: Unit, kept: Kept, data: bytes) -> int:
        if not self._has_folder:  # a clip without any frame leaves none
            self._clip_folder.mkdir(parents=True, exist_ok=True)
            self._has_folder = True
        path = self._clip_folder / picture_name(kept.num_frames, self._format)
        path.write_bytes(data)
        self._written.append(path)
        return len(data)

    def _flush(self) -> None:
        sync_files(self._written)
        self._written = []


class PackSink(FrameSink):
    """Every clip at the place in the packs that was planned for it."""

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self._places = read_packs(self._folder)
        self._open_packs: dict[Path, int] = {}

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is, and for how many frames it has room."""
        kept, place = super().begin(unit), self._places.get(unit.clip_no)
        kept.room = 0
        if place is not None:
            kept.size_wh, kept.room = (place.width, place.height), place.num_frames
        return kept

    def _shape(self, frame: Frame, kept: Kept) -> Frame:
        if kept.num_frames == kept.room:
            raise DecodeError(
                "the packs have room for {room} frames of this clip, as many as it said it had; "
                "write it into another folder, or without {--pack}",
                room=kept.room,
                reason="longer than it said",
            )
        return np.ascontiguousarray(resize_frame(frame, kept.size_wh))

    def _write(self, unit: Unit, kept: Kept, data: Frame) -> int:
        place = self._places[unit.clip_no]
        if place.path not in self._open_packs:
            self._open_packs[place.path] = os.open(place.path, os.O_RDWR | os.O_CREAT, 0o644)
        start, view = (place.offset or 0) + kept.num_frames * data.nbytes, data.data.cast("B")
        while view:
            done = os.pwrite(self._open_packs[place.path], view, start)
            start, view = start + done, view[done:]
        return data.nbytes

    def _flush(self) -> None:
        for pack in self._open_packs.values():
            os.fsync(pack)
            os.close(pack)
        self._open_packs = {}
