"""What frames a clip has: their files, how many, which of them a sampling takes."""

from __future__ import annotations

import os
from collections.abc import Iterator

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
