"""What frames a clip has: their files, how many, which of them a sampling takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import numpy as np

from posemill.decoders import VideoReader, open_video
from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    natural_sort,
    raise_decode_error,
    raise_for_os_error,
    suffix_of,
)
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError
from posemill.places import ChangedError, Entry, open_place, uri_of
from posemill.records import Clip, Frame, IntArray
from posemill.sources.scan import is_picture, joined_version, list_pictures


def list_frames(clip: Clip) -> list[str]:
    """Return the file names of a clip's frames in order; one empty name for a single picture.

    `DecodeError` where there are none.
    """
    if clip.kind == "video":
        raise ValueError(f"{clip.clip_id!r} is a video: it has no list of files")
    if clip.kind == "pictures" and not os.path.isdir(clip.path):  # noqa: PTH112
        return [""]
    try:
        names = list_pictures(clip.path)
    except NotADirectoryError:
        raise_decode_error(clip.path, "not a folder", "expected a folder of frames")
    except OSError as error:
        raise_for_os_error(clip.path, error)
    if not names:
        raise_decode_error(clip.path, "no frames", "the folder holds no pictures")
    return names


def list_objects(clip: Clip) -> dict[str, Entry]:
    """Return the same for a clip at a URI, with what the listing says of each.

    `ChangedError` where they are not those of which the clip has the version.
    """
    if clip.kind == "pictures" and suffix_of(clip.path) in PICTURE_SUFFIXES:
        return {"": Entry("", 0, clip.version, 0.0)}
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


def length_of(video: VideoReader) -> int:
    """Return how many frames a video should give, without decoding; `DecodeError` if it cannot."""
    return video.count_frames() if video.num_frames is None else video.num_frames


def video_numbers(video: VideoReader, sampling: Sampling) -> IntArray:
    """Return the numbers of the frames of a video that a sampling takes; `DecodeError` if none."""
    num_frames = length_of(video)
    if not num_frames:
        return np.zeros(0, np.int64)
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
    steps = np.diff(numbers)
    first, stride = int(numbers[0]), int(steps[0]) if len(steps) else 1
    if (steps == stride).all():
        yield from islice(video.read_frames(first, stride=stride), len(numbers))
        return
    wanted = set(numbers.tolist())
    for number, frame in enumerate(video.read_frames(first), start=first):
        if number in wanted:
            yield frame
        if number == numbers[-1]:
            return


def count_frames(clip: Clip, decoder: str = "pyav", sampling: Sampling | None = None) -> int | None:
    """Return how many frames a clip gives, or a sampling of it; None if it cannot be opened."""
    known, start, end = clip.num_frames, clip.start_seconds, clip.end_seconds
    try:
        # Whoever reads what lies elsewhere has it here, and counts it then.
        if known is None and uri_of(clip.path) is None:
            if clip.kind != "video":
                known = len(list_frames(clip))
            else:
                with open_video(
                    clip.path, decoder=decoder, start_seconds=start, end_seconds=end
                ) as video:
                    return len(video_numbers(video, sampling)) if sampling else length_of(video)
        if clip.kind != "video" and sampling and known:
            return len(sampling.indices(known, fps=clip.listed_fps))
    except DecodeError:
        return None
    return known
