"""Landmarks of one source in memory, without a run; and clips that a trained model has not seen:
estimated or read, then shaped as its data was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import numpy as np

from posemill.clips.inputs import ClipInput
from posemill.config import parse_size, resize_of
from posemill.decoders.choice import AUTO, settle_for_extraction
from posemill.decoders.opening import PICTURE_SUFFIXES, suffix_of
from posemill.decoders.pictures import resize_frame
from posemill.decoders.sampling import fewer_frames
from posemill.errors import DecodeError, SourceError
from posemill.estimators import engine_info, open_estimator
from posemill.estimators.people import gather_people
from posemill.files import atomic_path, folder_kind, new_folders
from posemill.formats.landmarks_file import landmark_arrays
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.between import writing
from posemill.jobs.convert.shaping import shape_clip
from posemill.jobs.extract.keypoints import Result, join_frames
from posemill.messages import Message
from posemill.outputs import Outputs
from posemill.places import uri_of
from posemill.records import Clip, PoseClip
from posemill.skeletons import get_skeleton
from posemill.sources import clip_at, find_clips
from posemill.sources.lists import LIST_SUFFIXES
from posemill.sources.reading import count_frames, read_clip
from posemill.sources.scan import list_pictures
from posemill.sources.tracking import ONE_PICTURE, decide_tracking
from posemill.terminal import warn_once

Mode = Literal["image", "video"]
# Frames an engine gets at once in image mode.
_BATCH = 8


def estimate_landmarks(
    source: Path | Clip,
    *,
    mode: Mode | Literal["auto"] = "auto",
    engine: str = "holistic",
    engine_options: Mapping[str, Any] | None = None,
    decoder: str = "pyav",
    resize: str | None = None,
    fps: float | None = None,
    stride: int = 1,
    device: str = "cpu",
    threads: int = 1,
    on_frame: Callable[[], None] = lambda: None,
) -> tuple[PoseClip, list[DecodeError]]:
    """Return the landmarks of every frame of a source, and what could not be read.

    A frame that cannot be read is a row without landmarks, so that rows stay in step with files.
    The source is a folder of pictures (in the order of their names), a picture, a video, or
    a clip, which may be a part of one. In mode `image` every frame stands alone, in `video` they
    are tracked and smoothed; `auto`: as `choose_mode` finds. Of a folder, which has no seconds,
    `fps` takes all pictures.
    """
    clip = source if isinstance(source, Clip) else clip_at(source)
    source, size = Path(clip.path), parse_size(resize_of(resize))
    decoder = settle_for_extraction(decoder)
    if fps is not None and clip.kind != "video":
        template = "{source} does not say how many pictures a second it has: all are taken"
        warn_once(Message(template, source=source))
        fps = None
    sampling = fewer_frames(fps, stride)
    # By its length a video that ends before it is noticed.
    clip = replace(clip, num_frames=count_frames(clip, decoder, sampling))
    info = engine_info(engine, engine_options)
    chosen = choose_mode(source, engine)[0] if mode == "auto" else mode
    info.check_mode(engine, chosen)
    errors: list[DecodeError] = []
    rows: list[tuple[int, str, Result]] = []
    num_points = get_skeleton(info.skeleton_names[0]).num_points
    nothing = gather_people([np.zeros((0, 0, 3), np.uint8)], [], num_points)
    if info.people != "several":
        nothing = replace(nothing, others=None)
    opened = open_estimator(engine, device=device, threads=threads, **(engine_options or {}))
    with closing(opened) as estimator:
        state = estimator.new_state() if chosen == "video" else None
        frames = read_clip(clip, decoder=decoder, sampling=sampling)
        while items := list(islice(frames, _BATCH if state is None else 1)):
            good = [
                item.content if size is None else resize_frame(item.content, size)
                for item in items
                if not isinstance(item.content, DecodeError)
            ]
            states = None if state is None else [state]
            found, number = estimator.estimate(good, states) if good else nothing, count()
            for index, path, content in items:
                if not isinstance(content, DecodeError):
                    rows.append((index, path or "", (found, next(number))))
                else:
                    errors.append(content)
                    if path is None:  # a video ends at its first damage
                        break
                    rows.append((index, path, (nothing, 0)))
                on_frame()
    if not rows:
        raise errors[0] if errors else SourceError("{source}: no frames in it", source=source)
    numbers, paths, results = zip(*rows, strict=True)
    pose_clip = join_frames(
        results,
        info.skeleton_names[0],
        clip_id=source.name,
        frame_indices=np.array(numbers, np.int64),
        image_paths=paths if clip.kind != "video" else (),
    )
    return pose_clip, errors


def choose_mode(source: Path, engine: str = "holistic") -> tuple[Mode, Message]:
    """Return how the frames of a source belong together by evidence, and why."""
    if "video" not in engine_info(engine).modes:
        return "image", Message("engine {engine} has no other mode", engine=engine)
    clip = clip_at(source)
    if clip.kind == "video":
        return "video", Message("a video")
    if clip.kind == "frames" and uri_of(clip.path) is not None:
        return "video", Message("a folder at a URI, as in extract")
    tracking = decide_tracking([clip])
    if tracking.alone:
        return "image", Message(next(iter(tracking.reasons), ONE_PICTURE))
    return "video", Message("numbered pictures of one size, neighbours alike")


def check_out(path: Path, *, source: Path | str, overwrite: bool = False) -> None:
    """Raise before the work what would stop `save_landmarks` after it; leaves nothing behind."""
    with writing(path):
        Outputs(source, overwrite=overwrite).claim_file(path)
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        # A name as long as that of a file that is being written.
        with NamedTemporaryFile(prefix=f".{path.name}", suffix=f".{'x' * 20}.tmp", dir=folder):
            pass


def save_landmarks(
    clip: PoseClip, path: Path, *, source: Path | str = "", overwrite: bool = False
) -> None:
    """Write a clip part by part as npz; `posemill.formats.landmarks_file` says what is in it."""
    arrays = landmark_arrays(clip)
    with (
        writing(path),
        new_folders(path.parent),
        Outputs(source, overwrite=overwrite).writing_file(path),
        atomic_path(path) as temporary,
        temporary.open("wb") as handle,
    ):
        np.savez(handle, **arrays)  # type: ignore[arg-type]


def clips_like(
    source: Path,
    skeleton_name: str,
    recipe: Mapping[str, Any],
    *,
    device: str = "cpu",
    threads: int = 1,
    is_alone: bool = True,
    on_frame: Callable[[], None] = lambda: None,
) -> Iterator[tuple[PoseClip | None, list[DecodeError]]]:
    """Yield each clip of a source in a layout and by a recipe, with what could not be read of it.

    None stands for a clip of several of which nothing could be read; the only one is a DecodeError.
    The source is a run; a video, a picture, folders of them, or a list. Keypoints are found as
    those of the recipe's data were, by `extraction` in it. `is_alone`: there are no other sources;
    `on_frame` is called after each frame that was estimated.
    """
    wanted = Recipe(
        normalize=str(recipe.get("normalize", "none")),
        interpolate=int(recipe.get("interpolate", 0)),
        smooth=str(recipe.get("smooth", "none")),
    )
    if folder_kind(source) == "extraction":
        for known in ClipInput(source).clips(layout=skeleton_name):
            yield shape_clip(known, wanted, skeleton_name), []
        return
    clips = _new_clips(source)
    extraction = recipe.get("extraction") or {}
    found_by = {name: value for name, value in extraction.items() if value is not None}
    if not found_by:
        template = (
            "the model's data do not say how their keypoints were found; new ones are found "
            "by engine holistic in video mode"
        )
        warn_once(Message(template))
    how = {"mode": "video", **found_by, "device": device, "threads": threads}
    for clip in clips:
        try:
            found, errors = estimate_landmarks(clip, **how, on_frame=on_frame)
        except DecodeError as error:
            if is_alone and len(clips) == 1:
                raise
            yield None, [error]
            continue
        found = replace(found, clip_id=clip.clip_id)
        yield shape_clip(found, wanted, skeleton_name), errors


def count_new_frames(source: Path, recipe: Mapping[str, Any]) -> int:
    """Return of how many frames `clips_like` will find keypoints; those of a run are there."""
    if folder_kind(source) == "extraction":
        return 0
    found_by, num_frames = recipe.get("extraction") or {}, 0
    decoder = settle_for_extraction(found_by.get("decoder") or AUTO)
    for clip in _new_clips(source):
        fps = found_by.get("fps") if clip.kind == "video" else None
        sampling = fewer_frames(fps, found_by.get("stride") or 1)
        num_frames += count_frames(clip, decoder, sampling) or 0  # one that cannot be read has none
    return num_frames


def _new_clips(source: Path) -> list[Clip]:
    """Return the clips of what is no run, as `extract` names them; of any other file a video."""
    others = (*PICTURE_SUFFIXES, *LIST_SUFFIXES)
    is_video = source.is_file() and suffix_of(source.name) not in others
    clips = find_clips(source, layout="videos" if is_video else "auto")  # refuses both in a folder
    if source.is_dir() and list_pictures(str(source)):
        return [clip_at(source)]
    return [
        clip if clip.kind == "video" else replace(clip_at(Path(clip.path)), clip_id=clip.clip_id)
        for clip in clips
    ]
