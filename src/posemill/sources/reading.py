"""The one reader of a clip: on a disk, in a video, at a URI; for all that looks at frames.

Whatever a file throws becomes a reason, and the next frame follows: `attempt` alone catches all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from posemill.decoders import VideoReader, open_video
from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    TargetSize,
    natural_sort,
    raise_decode_error,
    raise_for_os_error,
    suffix_of,
)
from posemill.decoders.pictures import read_picture
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, PlaceError
from posemill.places import ChangedError, Entry, open_place, uri_of
from posemill.records import Clip, Frame, IntArray
from posemill.sources.scan import is_picture, joined_version, list_pictures
from posemill.sources.scratch import Scratch

SLOW_STEP_SECONDS = 600.0  # loading models for the first time, writing to a busy disk
_T = TypeVar("_T")
VIDEOS_AHEAD, _PICTURES_AHEAD = 2, 16  # at a URI, of what is read next


def attempt(step: Callable[[], _T]) -> _T | DecodeError:
    """Return what a step gives, or why it gave nothing."""
    try:
        return step()
    except DecodeError as error:
        return error.with_traceback(None)  # which holds on to pixels
    except ChangedError as error:
        return DecodeError(error.sentence, reason="changed")
    except PlaceError:
        raise  # no clip is to blame, and the next one would meet it too
    except Exception as error:  # noqa: BLE001  (see the top of the module)
        kind, text = type(error).__name__, str(error)  # the error itself may be of any size
        return DecodeError("{kind}: {text}", reason=f"unexpected {kind}", kind=kind, text=text)


class Item(NamedTuple):
    """A frame of a clip, or why there is none."""

    frame_index: int  # among the frames that are wanted of the clip
    path: str | None  # of the picture; None in a video
    content: Frame | DecodeError


class End(NamedTuple):
    """Why nothing more of a clip comes, before its end."""

    failed: DecodeError
    total: int | None  # frames that the clip should have; None where nobody knows
    is_open: bool  # whether the clip could be opened at all


@dataclass(frozen=True)
class Part:
    """Which part of a clip is read."""

    start: int = 0
    stop: int | None = None  # exclusive; None for the end of the clip
    skip: Mapping[int, str] = field(default_factory=dict)  # frames not made pixels of, and why
    give_up: tuple[int, str] | None = None  # from which frame on nothing is read, and why

    def refusal(self, index: int) -> DecodeError | None:
        """Return why a frame is not to be read, None if it is."""
        first, reason = self.give_up or (sys.maxsize, "")
        why = self.skip.get(index, reason if index >= first else None)
        return None if why is None else DecodeError("{why}", reason="crashed the worker", why=why)


_ALL = Part()


class Listing:
    """The pictures of the last clip, listed once; and files of objects, as long as needed."""

    def __init__(self) -> None:
        self._last = ("", "")
        self._entries: dict[str, Entry] = {}
        self.scratch = Scratch()

    def entries_of(self, clip: Clip) -> dict[str, Entry]:
        """Return what `list_frames` does."""
        if self._last != (clip.kind, clip.path):
            self._entries, self._last = list_frames(clip), (clip.kind, clip.path)
        return self._entries

    def read_picture(self, path: str, version: str) -> Frame:
        """Return the pixels of a picture, wherever it is."""
        with self.scratch.file(path, version) as file:
            return read_picture(file)


@dataclass(eq=False)
class ClipReader:
    """Reads the frames of one clip."""

    clip: Clip
    decoder: str = "pyav"
    _: KW_ONLY
    sampling: Sampling | None = None  # which frames are wanted, by number or time; None for all
    numbers: IntArray | None = None  # or which: `numbers[i]` of the source is frame i; they rise
    target_size: TargetSize = None  # what a video's frames are resized to on their way
    listing: Listing = field(default_factory=Listing)  # shared by all readers of a worker
    next_clips: Sequence[Clip] = ()  # videos at a URI are fetched ahead
    # Called before each step: the frame, and how long it may take if unusual.
    on_step: Callable[[int, float], None] = lambda index, seconds: None
    fps: float | None = field(default=None, init=False)  # as far as the clip says

    def source_number(self, index: int) -> int:
        """Return the number that a frame has in its source."""
        return index if self.numbers is None else int(self.numbers[index])

    def with_number(self, failed: DecodeError, index: int) -> DecodeError:
        """Return a reason with the number of the frame in its source, where that is another."""
        if self.numbers is None or index >= len(self.numbers):
            return failed
        template, number = "frame {number} of the source: {why}", self.source_number(index)
        return DecodeError(template, reason=failed.reason, number=number, why=failed.sentence)

    def read(self, part: Part = _ALL) -> Generator[Item | End, None, None]:
        """Yield the frames in their order; an `End`, if any, is the last."""
        self._total, self._is_open = self.clip.num_frames, False
        is_video = self.clip.kind == "video"
        with closing(self._read_video(part) if is_video else self._read_pictures(part)) as items:
            while item := attempt(lambda: next(items, None)):
                if isinstance(item, DecodeError):
                    yield End(item, self._total or None, self._is_open)
                else:
                    yield item

    def _count(self, video: VideoReader) -> int | None:
        numbers = attempt(lambda: video_numbers(video)) if self.numbers is None else self.numbers
        return None if isinstance(numbers, DecodeError) else len(numbers)

    def _read_video(self, part: Part) -> Generator[Item, None, None]:
        """Yield the frames of a video; one at a URI is fetched, and counted when it is here."""
        clip, scratch = self.clip, self.listing.scratch
        say_that_it_comes = partial(self.on_step, part.start, SLOW_STEP_SECONDS)
        if uri_of(clip.path) is not None:
            say_that_it_comes()
        with scratch.file(clip.path, clip.version, say_that_it_comes) as file:
            following = [later for later in self.next_clips if later.kind == "video"]
            scratch.ahead((later.path, later.version, None) for later in following)
            self.on_step(part.start, 0.0)
            video = open_video(
                file,
                decoder=self.decoder,
                start_seconds=clip.start_seconds,
                end_seconds=clip.end_seconds,
                target_size=self.target_size,
            )
            with closing(video):
                frames = self._frames_of(video, part)
                for index in count(part.start):
                    item = attempt(lambda: next(frames, None))
                    if isinstance(item, DecodeError):
                        self._is_open = True
                        # Damage hides frames from the count too: at least the damaged one is lost.
                        self._total = self._total or max(index + 1, self._count(video) or 0)
                        raise self.with_number(item, index)
                    if item is None:
                        return
                    yield item

    def _frames_of(self, video: VideoReader, part: Part) -> Iterator[Item]:
        """Yield the frames of an open video; `DecodeError` where no more come that should."""
        start, self.fps = part.start, video.fps
        if self.sampling is not None:
            self.fps = self.sampling.rate_of(self.fps)
            self.numbers = video_numbers(video, self.sampling)
        if uri_of(self.clip.path) is not None:
            self._total = self._count(video)
        if self.numbers is None:
            frames = video.read_frames(start)
        else:
            frames = wanted_frames(video, self.numbers[start:])
        for index in count(start) if part.stop is None else range(start, part.stop):
            refusal = part.refusal(index)
            if refusal is not None and part.give_up is not None and index >= part.give_up[0]:
                raise refusal
            # The frames before the first are decoded too, on the way there.
            self.on_step(index, SLOW_STEP_SECONDS if index == start > 0 else 0.0)
            frame, known = next(frames, None), self._total
            if frame is not None:
                yield Item(index, None, refusal or frame)
            elif known is not None and index < (part.stop or known):
                template = "the file ends after {index} of {known} frames"
                raise DecodeError(template, reason="ends too early", index=index, known=known)
            else:
                return

    def _read_pictures(self, part: Part) -> Generator[Item, None, None]:
        clip, listing, is_here = self.clip, self.listing, uri_of(self.clip.path) is None
        self.on_step(part.start, 0.0)
        entries = listing.entries_of(clip)
        names = list(entries)
        self.fps, planned = clip.listed_fps, clip.num_frames
        if self.numbers is not None:
            planned = None
        elif self.sampling is not None:
            self.numbers = self.sampling.indices(len(names), fps=self.fps)
            self.fps = self.fps and self.sampling.rate_of(self.fps)
        if self.numbers is not None:
            names = [names[number] for number in self.numbers if number < len(names)]
        planned = len(names) if planned is None else planned
        stop = planned if part.stop is None else min(part.stop, planned)
        template = "the folder has {number} of {planned} frames left"
        gone = DecodeError(template, reason="missing", number=len(names), planned=planned)
        for index in range(part.start, stop):
            if index >= len(names):
                yield Item(index, clip.path, gone)
                continue
            path, version = frame_path(clip, names[index]), entries[names[index]].version
            content: Frame | DecodeError | None = part.refusal(index)
            if content is None:
                self.on_step(index, 0.0)
                if not is_here:
                    listing.scratch.ahead(
                        (frame_path(clip, name), entries[name].version, entries[name].num_bytes)
                        for name in names[index : min(stop, index + _PICTURES_AHEAD)]
                    )
                content = attempt(partial(listing.read_picture, path, version))
            yield Item(index, path, content)


def read_clip(
    clip: Clip,
    *,
    decoder: str = "pyav",
    sampling: Sampling | None = None,
    numbers: IntArray | None = None,
) -> Iterator[Item]:
    """Yield a clip's frames in order, errors among them in their place: as `extract` reads it.

    A picture that cannot be read is one `DecodeError`, and the next follows. In a video, or where
    the clip cannot be opened at all, an error is the last item: nothing after its index comes.
    """
    reader, next_index = ClipReader(clip, decoder, sampling=sampling, numbers=numbers), 0
    for item in reader.read():
        if isinstance(item, End):
            yield Item(next_index, None, item.failed)
            return
        next_index = item.frame_index + 1
        yield item._replace(frame_index=reader.source_number(item.frame_index))


def list_frames(clip: Clip) -> dict[str, Entry]:
    """Return the names of a clip's pictures in order, and what a listing at a URI says of each.

    A single picture has an empty name. `DecodeError` where there are none; `ChangedError` where
    those at a URI are not those of which the clip has the version.
    """
    alone = Entry("", 0, clip.version, 0.0)
    if clip.kind == "video":
        raise ValueError(f"{clip.clip_id!r} is a video: it has no list of files")
    if uri_of(clip.path) is None:
        if clip.kind == "pictures" and not os.path.isdir(clip.path):  # noqa: PTH112
            return {"": alone}
        try:
            names = list_pictures(clip.path)
        except NotADirectoryError:
            raise_decode_error(clip.path, "not a folder", "expected a folder of frames")
        except OSError as error:
            raise_for_os_error(clip.path, error)
        if not names:
            raise_decode_error(clip.path, "no frames", "the folder holds no pictures")
        return dict.fromkeys(names, alone)
    if clip.kind == "pictures" and suffix_of(clip.path) in PICTURE_SUFFIXES:
        return {"": alone}
    entries = open_place(clip.path).list()
    pictures = {e.key: e for e in entries if "/" not in e.key and is_picture(e.key)}
    if not pictures:
        raise_decode_error(clip.path, "missing", "there are no pictures at this place")
    version = joined_version({name: entry.version for name, entry in pictures.items()})
    if clip.version not in ("", version):
        raise ChangedError("{uri}: its pictures were changed since they were listed", uri=clip.path)
    return {name: pictures[name] for name in natural_sort(pictures)}


def frame_path(clip: Clip, name: str) -> str:
    """Return the path, or the URI, of one of the names `list_frames` gave."""
    return f"{clip.path.rstrip('/')}/{name}" if name else clip.path


def video_numbers(video: VideoReader, sampling: Sampling | None = None) -> IntArray:
    """Return the numbers of the frames of a video that a sampling takes, or of all, undecoded.

    `DecodeError` where they cannot be counted, or have no times by which the sampling goes.
    """
    num_frames = video.num_frames or video.count_frames()
    if sampling is None or not num_frames:
        return np.arange(num_frames)
    try:
        if sampling.kind != "fps":
            return sampling.indices(num_frames)
        seconds = video.frame_seconds()
        return sampling.indices(len(seconds), seconds=seconds)
    except ValueError as error:
        raise DecodeError(str(error), reason="no frame rate") from error


def wanted_frames(video: VideoReader, numbers: IntArray) -> Iterator[Frame]:
    """Yield the frames of these numbers, which rise; others are not made pixels of, if possible."""
    if not len(numbers):
        return
    first, last = int(numbers[0]), int(numbers[-1])
    stride = int(np.gcd.reduce(np.diff(numbers))) or 1
    frames, wanted = video.read_frames(first, stride=stride), set(numbers.tolist())
    # The range ends first: nothing behind the last one is decoded.
    for number, frame in zip(range(first, last + 1, stride), frames, strict=False):
        if number in wanted:
            yield frame


def count_frames(clip: Clip, decoder: str = "pyav", sampling: Sampling | None = None) -> int | None:
    """Return how many frames a clip gives, or a sampling of it; None if it cannot be opened."""
    known, start, end = clip.num_frames, clip.start_seconds, clip.end_seconds
    # Whoever reads what lies elsewhere has it here, and counts it then.
    if known is None and uri_of(clip.path) is None:
        try:
            if clip.kind != "video":
                known = len(list_frames(clip))
            else:
                video = open_video(clip.path, decoder=decoder, start_seconds=start, end_seconds=end)
                with video:
                    return len(video_numbers(video, sampling))
        except DecodeError:
            return None
    if clip.kind != "video" and sampling and known:
        return len(sampling.indices(known, fps=clip.listed_fps))
    return known
