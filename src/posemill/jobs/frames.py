"""`frames`: every video of a source decoded once, kept as pictures or packed, with an index.

Where the frames of each clip go is known before the first: whoever writes what when, the files are
the same.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from posemill.config import FramesConfig
from posemill.decoders.choice import AUTO, USUAL, Choice, choose
from posemill.decoders.opening import TargetSize
from posemill.decoders.pictures import encode_picture, resize_frame
from posemill.decoders.stream_pyav import scaled_wh
from posemill.errors import DecodeError, RunError
from posemill.files import safe_parts, sync_files
from posemill.jobs.extract.job import FrameJob, Lane, Sink
from posemill.jobs.extract.opening import source_record
from posemill.jobs.extract.plan import UNKNOWN_COST
from posemill.jobs.extract.run import run_job
from posemill.jobs.extract.status import Progress
from posemill.messages import Message
from posemill.records import Clip, Frame, label_of_folder
from posemill.runs.events import Piece, PlannedUnit, Shard
from posemill.runs.frame_index import (
    INDEX_NAME,
    IndexedClip,
    indices_of,
    picture_name,
    ranges_of,
    read_index,
    write_index,
)
from posemill.runs.ledger import Ledger
from posemill.runs.log import EventLog
from posemill.runs.manifest import OWN_NAMES, Manifest, check_folder
from posemill.runs.queries import Unit
from posemill.sources import ClipList
from posemill.sources.reading import read_clip

_PICTURE = re.compile(r"(\d{6,})\.(jpg|png|webp)")
PACKS_NAME = "packs"
PACK_BYTES = 1 << 30  # a pack takes no more clips beyond it


def clip_parts(clip: Clip) -> list[str]:
    """Return the names of the folders that lead to a clip's pictures, the split's first.

    Clips of no split lie directly in the output, as in the source they came from.
    """
    parts = [] if clip.split == "all" else safe_parts(clip.split)
    parts += safe_parts(clip.clip_id)
    # Hidden folders are not looked into, and ours are no clips.
    parts = [f"_{part}" if part.startswith(".") else part for part in parts]
    is_taken = parts[0] in (*OWN_NAMES, INDEX_NAME, PACKS_NAME)
    return [f"{parts[0]}_", *parts[1:]] if is_taken else parts


def check_parts_differ(clips: Iterable[Clip]) -> None:
    """Raise where two clips would have the same folder."""
    seen: dict[str, Clip] = {}
    for clip in clips:
        folder = "/".join(clip_parts(clip))
        other = seen.setdefault(folder, clip)
        if other is not clip:
            raise RunError(
                "the clips {clip_id!r} and {clip_id_2!r} would both be written to the folder "
                "{folder!r}; rename one of them",
                clip_id=other.clip_id,
                clip_id_2=clip.clip_id,
                folder=folder,
            )


def plan_packs(folder: Path, clips: Sequence[Clip], decoder: str, size: TargetSize) -> None:
    """Write the place of each clip, one behind the other; one that cannot be read has none."""
    packs, number, offset = folder / PACKS_NAME, 0, 0
    packs.mkdir(exist_ok=True)
    places: list[IndexedClip] = []
    for clip_no, clip in enumerate(clips, start=1):
        size_wh = _size_of(clip, decoder, size) if clip.num_frames else None
        if size_wh is None or clip.num_frames is None:
            continue
        place = IndexedClip(
            packs / f"{number:06d}.rgb",
            clip.clip_id,
            clip.split,
            None,
            "rgb",
            offset,
            clip.num_frames,
            *size_wh,
            extra={"clip_no": str(clip_no)},
        )
        places.append(place)
        offset += place.num_frames * place.width * place.height * 3
        if offset >= PACK_BYTES:
            number, offset = number + 1, 0
    write_index(packs, places)


def _size_of(clip: Clip, decoder: str, size: TargetSize) -> tuple[int, int] | None:
    """Return width and height of a clip's frames, as the first that can be read says."""
    if isinstance(size, tuple):
        return size
    frames = (frame.content for frame in read_clip(clip, decoder=decoder))
    first = next((frame for frame in frames if not isinstance(frame, DecodeError)), None)
    return None if first is None else scaled_wh((first.shape[1], first.shape[0]), size)


def read_packs(folder: Path) -> dict[int, IndexedClip]:
    """Return the place of each clip that has one, by its number."""
    path = folder / PACKS_NAME / INDEX_NAME
    try:
        return {int(place.extra["clip_no"]): place for place in read_index(path)}
    except (RunError, ValueError, KeyError) as error:
        raise RunError(
            "{path} cannot be read: {error}; it says where clips lie in the packs: put back "
            "a copy of it, or choose another folder",
            path=path,
            error=error,
        ) from error


@dataclass
class Kept:
    """How many frames of a clip are written, and the size of all."""

    num_frames: int = 0
    size_wh: tuple[int, int] = (0, 0)

    def to_bytes(self) -> bytes:
        """Return it as plain bytes."""
        return struct.pack("<qii", self.num_frames, *self.size_wh)


class FrameSink(Sink):
    """What pictures and packs have in common: one clip at a time, in the size of its first."""

    def __init__(self, config: FramesConfig) -> None:
        self.writes_to, self._folder = str(config.out), config.out
        self._size = config.target_size

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is, ready to be written on."""
        num_frames, width, height = struct.unpack("<qii", unit.state or bytes(16))
        return Kept(num_frames, (width, height))

    def commit(self, name: str, lanes: Sequence[Lane]) -> Shard:
        """Make all that was written durable; say which frames, for the index."""
        self._flush()
        pieces = []
        for lane in lanes:
            kept, unit, num_rows = lane.state, lane.unit, len(lane.rows)
            numbers = [lane.reader.source_number(index) for index, _, _ in lane.rows]
            note = {"frames": ranges_of(numbers), "size_wh": kept.size_wh, "fps": lane.reader.fps}
            first, before = lane.rows[0][0], kept.num_frames - num_rows
            piece = Piece(unit.clip_no, first, before, num_rows, unit.unit_no, json.dumps(note))
            pieces.append(piece)
        num_bytes = sum(written for lane in lanes for _, _, written in lane.rows)
        return Shard(name, num_bytes, tuple(pieces))

    @abstractmethod
    def _flush(self) -> None: ...


class PictureSink(FrameSink):
    """A folder for each clip, a picture for each frame."""

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self._format, self._quality = config.format, config.quality
        self._clip_folder = self._folder
        self._written: list[Path] = []

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is; what lies beyond was not committed and goes."""
        kept = super().begin(unit)
        self._clip_folder = self._folder.joinpath(*clip_parts(unit.clip))
        for entry in self._clip_folder.glob("*"):
            name = _PICTURE.fullmatch(entry.name)
            if name and int(name[1]) >= kept.num_frames:
                entry.unlink()
        return kept

    def compute(self, frames: list[Frame], states: list[Kept] | None) -> Sequence[bytes]:
        """Return a frame as a picture, in the size of the first of its clip."""
        ((frame, kept),) = zip(frames, states or (), strict=True)
        if not kept.num_frames:
            kept.size_wh = scaled_wh((frame.shape[1], frame.shape[0]), self._size)
        resized = resize_frame(frame, kept.size_wh)
        return [encode_picture(resized, self._format, quality=self._quality)]

    def put(self, lane: Lane, result: bytes) -> int:
        """Write a picture behind the last one of its clip; return its bytes."""
        if not lane.state.num_frames:  # a clip without any frame leaves no folder
            self._clip_folder.mkdir(parents=True, exist_ok=True)
        path = self._clip_folder / picture_name(lane.state.num_frames, self._format)
        path.write_bytes(result)
        self._written.append(path)
        lane.state.num_frames += 1
        return len(result)

    def _flush(self) -> None:
        sync_files(self._written)
        self._written = []


class PackSink(FrameSink):
    """Every clip at the place in the packs that was planned for it."""

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self._places = read_packs(self._folder)
        self._place: IndexedClip | None = None
        self._open_packs: dict[Path, int] = {}

    def begin(self, unit: Unit) -> Kept:
        """Return how far the clip is, whose place has room for so many frames."""
        kept, self._place = super().begin(unit), self._places.get(unit.clip_no)
        if self._place is not None:
            kept.size_wh = self._place.width, self._place.height
        return kept

    def compute(self, frames: list[Frame], states: list[Kept] | None) -> Sequence[Frame]:
        """Return a frame in the size that all of its clip have."""
        ((frame, kept),) = zip(frames, states or (), strict=True)
        room = 0 if self._place is None else self._place.num_frames
        if kept.num_frames == room:
            raise DecodeError(
                "the packs have room for {room} frames of this clip, as many as it said it had; "
                "write it into another folder, or without {--pack}",
                room=room,
                reason="longer than it said",
            )
        return [np.ascontiguousarray(resize_frame(frame, kept.size_wh))]

    def put(self, lane: Lane, result: Frame) -> int:
        """Write a frame behind the last one of its clip; return its bytes."""
        place = self._place
        assert place is not None  # else there was no room
        if place.path not in self._open_packs:
            self._open_packs[place.path] = os.open(place.path, os.O_RDWR | os.O_CREAT, 0o644)
        start = (place.offset or 0) + lane.state.num_frames * result.nbytes
        view = result.data.cast("B")
        while view:
            done = os.pwrite(self._open_packs[place.path], view, start)
            start, view = start + done, view[done:]
        lane.state.num_frames += 1
        return result.nbytes

    def _flush(self) -> None:
        for pack in self._open_packs.values():
            os.fsync(pack)
            os.close(pack)
        self._open_packs = {}


@dataclass(frozen=True, repr=False)
class FramesSummary(Progress):
    """What came of it."""

    @property
    def index(self) -> Path:
        """The table of all clips, for datasets."""
        return self.folder / INDEX_NAME

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**super().to_json(), "index": str(self.index), "num_bytes": self.num_bytes}


class FramesJob(FrameJob):
    """All frames that are wanted of all clips, kept."""

    config: FramesConfig
    summary_type = FramesSummary

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self.target_size = config.target_size

    def find_clips(self, clips: ClipList | None = None) -> ClipList:
        """Return the clips, with a note of the decoder that is chosen where that is `auto`.

        A begun run goes on with the one it was begun with, whatever was measured since.
        """
        clips = super().find_clips(clips)
        check_parts_differ(clips)
        if self.config.decoder != AUTO:
            return clips
        if check_folder(self.home.work):
            name = str(Manifest.read(self.home.work).options.get("decoder") or USUAL)
            choice = Choice(name, Message("as the run was begun"))
        else:
            choice = choose([clip.path for clip in clips if clip.kind == "video"], "all")
        self.config = self.config.replace(decoder=choice.decoder)
        note = Message("decoder {decoder}: {reason}", decoder=choice.decoder, reason=choice.why)
        return dataclasses.replace(clips, problems=(*clips.problems, note))

    def manifest(self, clips: ClipList) -> Manifest:
        """Return what was asked for."""
        options, source = self.config.deciding_options(), source_record(self.config.source, clips)
        return Manifest("", "frames", options, source=source)

    def plan(self, clips: ClipList) -> Iterable[PlannedUnit]:
        """Return a unit for each clip: its pictures are numbered one after the other."""
        config = self.config
        if config.pack:
            plan_packs(config.out, clips, config.decoder, config.target_size)
        for clip_no, clip in enumerate(clips, start=1):
            cost = UNKNOWN_COST if clip.num_frames is None else clip.num_frames
            yield PlannedUnit(clip_no, 0, None, True, clip.kind == "video", cost)

    def open_sink(self, device: str, run_id: str) -> FrameSink:
        """Return what writes pictures, or packs."""
        return (PackSink if self.config.pack else PictureSink)(self.config)

    def prepare(self, events: EventLog) -> None:
        """Take back the index if it does not say all: it is what makes the frames whole."""
        if events.ledger.costs_to_do():
            (self.config.out / INDEX_NAME).unlink(missing_ok=True)

    def finish(self, events: EventLog, clips: ClipList) -> None:
        """Write the index."""
        write_index(self.config.out, self._index(events.ledger, clips))

    def _index(self, ledger: Ledger, clips: ClipList) -> Iterator[IndexedClip]:
        config = self.config
        places = read_packs(config.out) if config.pack else {}
        has_label_folders = clips.layout in ("videos", "frames")
        for clip_no, _, pieces in ledger.found():
            clip, found = clips[clip_no - 1], [json.loads(note) for _, note in pieces]
            path, offset = config.out.joinpath(*clip_parts(clip)), None
            if config.pack:
                path, offset = places[clip_no].path, places[clip_no].offset
            label = clip.label
            if label is None and has_label_folders:
                label = label_of_folder(clip.clip_id) or None
            numbers = indices_of(" ".join(note["frames"] for note in found))
            width, height = found[0]["size_wh"]
            yield IndexedClip(
                path,
                clip.clip_id,
                clip.split,
                label,
                "rgb" if config.pack else cast(Any, config.format),
                offset,
                sum(num_rows for num_rows, _ in pieces),
                width,
                height,
                found[0]["fps"],
                ranges_of(numbers.tolist()),
                clip.extra,
            )


def write_frames(config: FramesConfig, **hooks: Any) -> FramesSummary:
    """Keep the frames of all clips of a source; continue if it was begun. As `run_job`."""
    return cast(FramesSummary, run_job(FramesJob(config), **hooks))
