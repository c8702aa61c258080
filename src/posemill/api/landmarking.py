"""`posemill.landmarks`: the keypoints of one source, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from posemill.api.arguments import AnyPath, here
from posemill.api.progress import show_progress
from posemill.decoders.choice import settle_for_extraction
from posemill.errors import DecodeError
from posemill.estimators import engine_info
from posemill.jobs.landmarks import (
    Mode,
    check_out,
    choose_mode,
    clip_at,
    estimate_landmarks,
    save_landmarks,
)
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton
from posemill.sources.frames import count_frames
from posemill.terminal import warn_caller


class Landmarks(NamedTuple):
    """What was found in a source.

    Args:
        clip: The keypoints; a frame that cannot be read is a row without any.
        mode: How frames belong together.
        why: Reason of the mode, where nobody asked for one.
        errors: Frames that cannot be read.
    """

    clip: PoseClip
    mode: Mode
    why: str
    errors: list[DecodeError]


def landmarks(
    source: AnyPath,
    out: AnyPath | None = None,
    *,
    mode: Literal["auto", "image", "video"] = "auto",
    engine: str = "holistic",
    engine_options: Mapping[str, Any] | None = None,
    decoder: str = "pyav",
    device: str = "cpu",
    threads: int = 1,
    overwrite: bool = False,
    progress: bool | None = None,
) -> PoseClip:
    """Return the keypoints of one clip or folder, without making a run.

    A frame that cannot be read is a row without keypoints, and a warning.

    Args:
        source: A folder of pictures (in the order of their names), a picture, or a video.
        out: A .npz file to write as well.
        mode: `image`: every frame stands alone; `video`: the frames are tracked and smoothed;
            `auto`: videos are tracked, and folders whose pictures look like one.
        engine: What finds them: `holistic`, `openpose` …, as `posemill engines` lists.
        engine_options: Its own options.
        decoder: What reads videos.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Threads inside the networks.
        overwrite: Replace a file that was not made of this source.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    found = find_landmarks(
        Path(source), None if out is None else here(out), mode=None if mode == "auto" else mode,
        engine=engine, engine_options=engine_options or {}, decoder=decoder, device=device,
        threads=threads, overwrite=overwrite, progress=progress,
    )  # fmt: skip
    for error in found.errors:
        warn_caller(str(error))
    return found.clip


def find_landmarks(
    source: Path,
    out: Path | None,
    *,
    mode: Mode | None,
    engine: str,
    engine_options: Mapping[str, Any],
    decoder: str,
    device: str,
    threads: int,
    overwrite: bool,
    progress: bool | None,
) -> Landmarks:
    """Return what is found in a source, and write it; arguments as `landmarks` has them."""
    decoder = settle_for_extraction(decoder)
    num_frames = count_frames(clip_at(source), decoder)
    if out is not None:
        num_points = get_skeleton(engine_info(engine, engine_options).skeleton_names[0]).num_points
        check_out(out, num_frames, num_points=num_points, source=source, overwrite=overwrite)
    chosen, why = (mode, "") if mode is not None else choose_mode(source, engine)
    with show_progress("landmarks", num_frames, progress=progress) as advance:
        clip, errors = estimate_landmarks(
            source, mode=chosen, engine=engine, engine_options=engine_options, decoder=decoder,
            device=device, threads=threads, on_frame=advance,
        )  # fmt: skip
    if out is not None:
        save_landmarks(clip, out, source=source, overwrite=overwrite)
    return Landmarks(clip, chosen, why, errors)
