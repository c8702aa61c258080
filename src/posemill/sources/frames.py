"""What frames a clip has: their files, how many, which of them a sampling takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from posemill.decoders import VideoReader, open_video
from posemill.decoders.opening import raise_decode_error, raise_for_os_error
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError
from posemill.places import uri_of
from posemill.records import Clip, Frame, IntArray
from posemill.sources.scan import list_pictures


def list_frames(clip: Clip) -> list[str]:
    """Return the file names of a clip's frames in order; for a single picture, its own name.

    Raises:
        DecodeError: The folder is missing, cannot be read, or holds no pictures.
    """
    if clip.kind == "video":
        raise ValueError(f"{clip.clip_id!r} is a video: it has no list of files")
    if not Path(clip.path).is_dir():
        if clip.kind == "pictures":
            return [Path(clip.path).name]
        _raise_for_folder(clip.path)
    try:
        names = list_pictures(clip.path)
    except OSError as error:
        raise_for_os_error(clip.path, error)
    if not names:
        raise_decode_error(clip.path, "no frames", "the folder holds no pictures")
    return names


def frame_path(clip: Clip, name: str) -> str:
    """Return the path of one of the names `list_frames` gave."""
    if clip.kind == "pictures" and not Path(clip.path).is_dir():
        return clip.path
    return os.path.join(clip.path, name)  # noqa: PTH118


def video_numbers(video: VideoReader, sampling: Sampling) -> IntArray:
    """Return the numbers of the frames of a video that a sampling takes.

    Raises:
        DecodeError: The packets cannot be read; or the video does not say its rate, which `fps`
            needs.
    """
    known = video.num_frames
    num_frames = video.count_frames() if known is None else known
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
    """Yield the frames of these numbers, which rise: nothing else is made pixels of, if possible.

    Raises:
        DecodeError: At damage, after all frames before it.
    """
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
    """Return how many frames a clip should give; None for a video that cannot be opened.

    A video is not decoded: either its container knows, or its packets are counted, by the decoder
    that will read it. With a sampling, the frames that it takes.
    """
    known = clip.num_frames
    if uri_of(clip.path) is not None and (clip.kind == "video" or known is None):
        return known  # whoever reads it has it here, and counts it then
    try:
        if clip.kind != "video":
            known = len(list_frames(clip)) if known is None else known
            if sampling is not None and known:
                return len(sampling.indices(known, fps=clip.listed_fps))
            return known
        if known is not None:
            return known
        window = {"start_seconds": clip.start_seconds, "end_seconds": clip.end_seconds}
        with open_video(clip.path, decoder=decoder, **window) as video:  # type: ignore[arg-type]
            if sampling is not None:
                return len(video_numbers(video, sampling))
            known = video.num_frames
            return video.count_frames() if known is None else known
    except DecodeError:
        return None


def _raise_for_folder(path: str) -> None:
    try:
        Path(path).stat()
    except OSError as error:
        raise_for_os_error(path, error)
    raise_decode_error(path, "not a folder", "expected a folder of frames")
