"""Reading the frames of a unit: whatever a file throws becomes a reason, and the next follows.

The only place of the package that catches everything is here: `attempt`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from posemill.decoders import VideoReader, open_video
from posemill.decoders.opening import TargetSize
from posemill.decoders.pictures import read_picture
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, PlaceError
from posemill.estimators import ClipState
from posemill.jobs.extract.messages import DECODING, Unit
from posemill.messages import Message
from posemill.places import ChangedError, Entry, uri_of
from posemill.records import Clip, Frame, IntArray
from posemill.runs.events import Lost
from posemill.sources.frames import (
    count_frames,
    frame_path,
    list_frames,
    video_numbers,
    wanted_frames,
)
from posemill.sources.names import PICTURE_SUFFIXES, suffix_of
from posemill.sources.places import list_place
from posemill.sources.scratch import Scratch

SLOW_STEP_SECONDS = 600.0  # loading models for the first time, writing to a busy disk
_T = TypeVar("_T")
_VIDEOS_AHEAD, _PICTURES_AHEAD = 2, 16  # at a URI, of what is read next


@dataclass(frozen=True)
class Failed:
    """Why a step gave nothing: a few words for counting, and all that is known."""

    reason: str
    message: str

    def with_name(self, name: str, *, instead_of: str) -> Failed:
        """Return it with the name that users know instead of that of a copy."""
        return Failed(self.reason, self.message.replace(instead_of, name))


def attempt(step: Callable[[], _T]) -> _T | Failed:
    """Return what a step gives, or why it gave nothing."""
    try:
        return step()
    except DecodeError as error:
        return Failed(error.reason, error.sentence)
    except ChangedError as error:
        return Failed("changed", error.sentence)
    except PlaceError:
        raise  # no clip is to blame, and the next one would meet it too
    except Exception as error:  # noqa: BLE001  (see the top of the module)
        return Failed(f"unexpected {type(error).__name__}", f"{type(error).__name__}: {error}")


@dataclass(eq=False)
class Lane:
    """A unit under way: what was found since its last commit.

    Args:
        position: Of the unit within its task.
        next_frame: The first one that was not taken yet.
        state: What the handler knows of the frames before, None where each stands alone.
        keep_from: Frames before it are committed, and read again only for the state's sake.
        fps: Of the frames that are read of a video, as far as it says.
        numbers: Of the clip's frames, those that are wanted: frame i of the unit is frame
            `numbers[i]` of the source; None for all.
        found: Number, file and result of each frame since the last commit.
        waiting: Frames that were read and not yet handled.
        local_path: Of a video at a URI, the file it was fetched to.
    """

    unit: Unit
    position: int
    next_frame: int
    state: ClipState | None
    keep_from: int = 0
    fps: float | None = None
    numbers: IntArray | None = None
    found: list[tuple[int, str | None, Any]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    waiting: list[tuple[int, str | None, Frame]] = field(default_factory=list)
    local_path: str = ""

    def source_number(self, index: int) -> int:
        """Return the number that a frame has in its source."""
        return index if self.numbers is None else int(self.numbers[index])

    def lose(self, index: int | None, failed: Failed, *, path: str, num_frames: int = 1) -> None:
        """Note frames that gave no keypoints."""
        if self.numbers is not None and index is not None and index < len(self.numbers):
            message = Message(
                "frame {number} of the source: {reason}",
                number=self.source_number(index),
                reason=failed.message,
            )
            failed = Failed(failed.reason, message)
        if self.local_path:  # the name that users know
            failed = failed.with_name(self.unit.clip.path, instead_of=self.local_path)
        self.lost.append(Lost(index, num_frames, path, failed.reason, failed.message))


Item = tuple[int, "str | None", "Frame | Failed"]


class Listing:
    """The frame names of the last clip: a folder of a million pictures is listed once."""

    def __init__(self) -> None:
        self._last: tuple[tuple[str, str], list[str]] = (("", ""), [])
        self._entries: dict[str, Entry] = {}
        self.scratch = Scratch()

    def names_of(self, clip: Clip) -> list[str]:
        """Return what `list_frames` does."""
        key = (clip.kind, clip.path)
        if self._last[0] != key:
            if uri_of(clip.path) is None:
                self._last = (key, list_frames(clip))
            else:
                self._entries = self._list_place(clip)
                self._last = (key, list(self._entries))
        return self._last[1]

    @staticmethod
    def _list_place(clip: Clip) -> dict[str, Entry]:
        if clip.kind == "pictures" and suffix_of(clip.path) in PICTURE_SUFFIXES:
            return {"": Entry("", 0, clip.version, 0.0)}  # itself
        return list_place(clip.path, clip.version)

    def read_picture(self, path: str, name: str) -> Frame:
        """Return the pixels of a picture, wherever it is."""
        if uri_of(path) is None:
            return read_picture(path)
        with self.scratch.file(path, self._entries[name].version) as file:
            return _named(path, file, lambda: read_picture(str(file)))

    def fetch_ahead(self, clip: Clip, names: Sequence[str]) -> None:
        """Begin to fetch the next pictures of a clip at a URI."""
        if uri_of(clip.path) is not None:
            entries = [self._entries[name] for name in names]
            self.scratch.ahead(
                (_path_of(clip, name), entry.version, entry.num_bytes)
                for name, entry in zip(names, entries, strict=True)
            )


class FrameReader:
    """Reads the frames of units.

    Args:
        decoder: For videos; a key of `posemill.decoders.DECODERS`.
        at: Told before each step: the place (position, frame index, phase), and how long it may
            take if unusual.
        listing: Shared by the readers of a worker.
        units: Of the task, in their order: videos at a URI are fetched ahead.
        sampling: Which frames of a clip are read; None for all. Units count those alone.
        target_size: What a video's frames are resized to on their way.
    """

    def __init__(
        self,
        decoder: str,
        at: Callable[[tuple[int, int, int], float], None],
        listing: Listing | None = None,
        *,
        units: Sequence[Unit] = (),
        sampling: Sampling | None = None,
        target_size: TargetSize = None,
    ) -> None:
        self._decoder = decoder
        self._sampling, self._target_size = sampling, target_size
        self._at = at
        self._listing = Listing() if listing is None else listing
        self._units = units

    def read(self, lane: Lane) -> Generator[Item, None, None]:
        """Yield a unit's frames from where it stands; a loss of all the rest is noted in `lane`."""
        if lane.unit.clip.kind != "video":
            yield from self._read_pictures(lane)
            return
        if uri_of(lane.unit.clip.path) is None:
            yield from self._open_video(lane, lane.unit.clip.path)
            return
        yield from self._fetch_video(lane)

    def lose_all(self, lane: Lane, failed: Failed) -> Generator[Item, None, None]:
        """Yield nothing: all that is left of a unit is lost."""
        self._lose_rest(lane, None, failed)
        yield from ()

    def _fetch_video(self, lane: Lane) -> Generator[Item, None, None]:
        """Yield the frames of a video at a URI; its length is counted when it is here."""
        clip, scratch = lane.unit.clip, self._listing.scratch

        def say_that_it_comes() -> None:
            self._at((lane.position, lane.unit.next_frame, DECODING), SLOW_STEP_SECONDS)

        say_that_it_comes()
        with ExitStack() as stack:
            file = scratch.file(clip.path, clip.version, on_progress=say_that_it_comes)
            found = attempt(lambda: stack.enter_context(file))
            if isinstance(found, Failed):
                self._lose_rest(lane, None, found)
                return
            after = self._units[lane.position + 1 : lane.position + 1 + _VIDEOS_AHEAD]
            scratch.ahead(
                (each.clip.path, each.clip.version, None)
                for each in after
                if each.clip.kind == "video" and uri_of(each.clip.path) is not None
            )
            if clip.num_frames is None:
                here = dataclasses.replace(clip, path=str(found))
                length = count_frames(here, self._decoder, self._sampling)
                clip = dataclasses.replace(clip, num_frames=length)
                lane.unit = dataclasses.replace(lane.unit, clip=clip)
            lane.local_path = str(found)
            yield from self._open_video(lane, str(found))

    def _open_video(self, lane: Lane, path: str) -> Generator[Item, None, None]:
        unit, clip = lane.unit, lane.unit.clip
        self._at((lane.position, unit.next_frame, DECODING), 0.0)
        reader = attempt(
            lambda: open_video(
                path,
                decoder=self._decoder,
                start_seconds=clip.start_seconds,
                end_seconds=clip.end_seconds,
                target_size=self._target_size,
            )
        )
        if isinstance(reader, Failed):
            self._lose_rest(lane, None, reader)
            return
        with closing(reader):
            sampling, fps = self._sampling, reader.fps
            lane.fps = fps if sampling is None else sampling.rate_of(fps)
            yield from self._read_video(lane, reader)

    def _read_video(self, lane: Lane, reader: VideoReader) -> Generator[Item, None, None]:
        unit, sampling = lane.unit, self._sampling
        if sampling is not None:
            numbers = attempt(lambda: video_numbers(reader, sampling))
            if isinstance(numbers, Failed):
                self._lose_rest(lane, reader, numbers)
                return
            lane.numbers = numbers
        index = unit.next_frame
        if lane.numbers is None:
            frames = reader.read_frames(index)
        else:
            frames = wanted_frames(reader, lane.numbers[index:])
        # The frames before the first are decoded too, on the way there.
        seconds = SLOW_STEP_SECONDS if index else 0.0
        while unit.stop_frame is None or index < unit.stop_frame:
            if unit.give_up is not None and index >= unit.give_up[0]:
                self._lose_rest(lane, reader, Failed("crashed the worker", unit.give_up[1]))
                return
            self._at((lane.position, index, DECODING), seconds)
            frame = attempt(lambda: next(frames, None))
            seconds = 0.0
            if isinstance(frame, Failed):
                self._lose_rest(lane, reader, frame)
                return
            if frame is None:
                known = unit.clip.num_frames
                if known is not None and index < (unit.stop_frame or known):
                    message = Message(
                        "the file ends after {index} of {known} frames", index=index, known=known
                    )
                    self._lose_rest(lane, reader, Failed("ends too early", message))
                return
            yield index, None, frame
            index += 1

    def _lose_rest(self, lane: Lane, reader: VideoReader | None, failed: Failed) -> None:
        """Note that nothing more of a unit comes, with how many frames that is."""
        unit, index = lane.unit, max(lane.next_frame, lane.keep_from)
        total = unit.clip.num_frames or None  # none were counted: damage hides them, too
        if total is None and reader is not None:
            numbers = lane.numbers
            counted = attempt(reader.count_frames if numbers is None else lambda: len(numbers))
            # Damage hides frames from the count as well: at least the damaged one is lost.
            total = max(index + 1, 0 if isinstance(counted, Failed) else counted)
        if unit.stop_frame is not None and total is not None:
            total = min(total, unit.stop_frame)
        num_frames = 0 if total is None else max(0, total - index)
        lane.lose(index if reader else None, failed, path=unit.clip.path, num_frames=num_frames)
        lane.next_frame = index + num_frames

    def _read_pictures(self, lane: Lane) -> Generator[Item, None, None]:
        unit = lane.unit
        self._at((lane.position, unit.next_frame, DECODING), 0.0)
        names = attempt(lambda: self._listing.names_of(unit.clip))
        if isinstance(names, Failed):
            self._lose_rest(lane, None, names)
            return
        lane.fps = fps = unit.clip.listed_fps
        if self._sampling is not None:
            lane.fps = fps and self._sampling.rate_of(fps)
            lane.numbers = self._sampling.indices(len(names), fps=fps)
            names = [names[number] for number in lane.numbers]
        planned = unit.clip.num_frames if unit.clip.num_frames is not None else len(names)
        stop = planned if unit.stop_frame is None else min(unit.stop_frame, planned)
        for index in range(unit.next_frame, stop):
            if index >= len(names):
                message = Message(
                    "the folder has {number} of {planned} frames left",
                    number=len(names),
                    planned=planned,
                )
                yield index, unit.clip.path, Failed("missing", message)
                continue
            path = _path_of(unit.clip, names[index])
            if index in unit.skip or (unit.give_up is not None and index >= unit.give_up[0]):
                yield index, path, Failed("skipped", "")  # `_take` knows why
                continue
            self._at((lane.position, index, DECODING), 0.0)
            self._listing.fetch_ahead(unit.clip, names[index : min(stop, index + _PICTURES_AHEAD)])
            yield index, path, attempt(partial(self._listing.read_picture, path, names[index]))


class ClipFrame(NamedTuple):
    """One frame of a clip, or why it could not be had.

    Args:
        frame_index: Its number within the clip.
        image_path: The picture's file; None in a video.
        content: The pixels, or the error.
    """

    frame_index: int
    image_path: str | None
    content: Frame | DecodeError


def read_clip(
    clip: Clip, *, start_index: int = 0, decoder: str = "pyav", sampling: Sampling | None = None
) -> Iterator[ClipFrame]:
    """Yield a clip's frames in order, errors among them in their place: as `extract` reads it.

    A picture that cannot be read is one `DecodeError`, and the next follows. In a video, or where
    the clip cannot be opened at all, an error is the last item: nothing after its index comes.

    Args:
        clip: Of any kind, on a disk or at a URI.
        start_index: The first frame to yield, of those that the sampling takes.
        decoder: For videos; a key of `posemill.decoders.DECODERS`.
        sampling: Which frames are read, by number or time; None for all.
    """
    lane = Lane(Unit(0, 0, clip, 0, None, start_index, None, False), 0, start_index, None)
    reader = FrameReader(decoder, lambda place, seconds: None, sampling=sampling)
    for index, path, found in reader.read(lane):
        lane.next_frame = index + 1
        if isinstance(found, Failed):
            error = DecodeError(found.message, reason=found.reason)
            yield ClipFrame(lane.source_number(index), path, error)
        else:
            yield ClipFrame(lane.source_number(index), path, found)
    for lost in lane.lost:
        error = DecodeError(lost.message, reason=lost.reason)
        yield ClipFrame(start_index if lost.frame_index is None else lost.frame_index, None, error)


def _path_of(clip: Clip, name: str) -> str:
    if uri_of(clip.path) is None:
        return frame_path(clip, name)
    return f"{clip.path}/{name}" if name else clip.path


def _named(name: str, file: Path, step: Callable[[], _T]) -> _T:
    """Return what a step gives; its error has the name that users know."""
    try:
        return step()
    except DecodeError as error:
        message = str(error).replace(str(file), name)
        raise DecodeError(message, reason=error.reason, frame_index=error.frame_index) from error
