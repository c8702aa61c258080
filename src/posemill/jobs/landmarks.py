"""Landmarks of one source in memory: a folder of pictures, a clip or a video, without a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import numpy as np

from posemill.config import parse_size, resize_of
from posemill.decoders.choice import settle_for_extraction
from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of
from posemill.decoders.pictures import resize_frame
from posemill.decoders.sampling import fewer_frames
from posemill.errors import DecodeError, SourceError
from posemill.estimators import EngineInfo, engine_info, open_estimator
from posemill.files import atomic_path, near_path
from posemill.formats.landmarks_file import landmark_arrays
from posemill.jobs.convert.between import writing
from posemill.messages import Message
from posemill.outputs import Outputs
from posemill.places import uri_of
from posemill.records import Clip, Frame, Keypoints, PoseClip, join_people, join_world, nobody_else
from posemill.skeletons import get_skeleton
from posemill.sources.frames import count_frames
from posemill.sources.reading import read_clip
from posemill.sources.tracking import ONE_PICTURE, judge_folder
from posemill.terminal import warn_once

Mode = Literal["image", "video"]
# Frames an engine gets at once in image mode.
_BATCH = 8


def estimate_landmarks(
    source: Path,
    *,
    mode: Mode | Literal["auto"] | None = None,
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

    Args:
        source: A folder of pictures (in the order of their names), a picture, or a video.
        mode: `image`: every frame stands alone; `video`: the frames are tracked and smoothed. None
            or `auto`: as `choose_mode` finds.
        engine: One of `posemill.estimators.known_engines`.
        engine_options: Its own options.
        decoder: For videos; one of `posemill.decoders.decoder_choices`.
        resize: `WIDTHxHEIGHT` that frames are brought to first; None: as they are.
        fps: Take as many frames of a second of a video; all pictures of a folder, which has none.
        stride: Take every Nth frame.
        device: For the engine.
        threads: For the engine.
        on_frame: Called after each frame.
    """
    clip, size = clip_at(source), parse_size(resize_of(resize))
    decoder = settle_for_extraction(decoder)
    if fps is not None and clip.kind != "video":
        warn_once(
            Message(
                "{source} does not say how many pictures a second it has: all are taken",
                source=source,
            )
        )
        fps = None
    sampling = fewer_frames(fps, stride)
    length = count_frames(clip, decoder, sampling)  # a video that ends before it is noticed
    clip = dataclasses.replace(clip, num_frames=length)
    info = engine_info(engine, engine_options)
    chosen = choose_mode(source, engine)[0] if mode is None or mode == "auto" else mode
    info.check_mode(engine, chosen)
    errors: list[DecodeError] = []
    paths: list[str] = []
    numbers: list[int] = []
    results: list[Keypoints] = []
    batch: list[Frame] = []

    def finish_batch() -> None:
        if batch:
            results.append(estimator.estimate([*batch], None if state is None else [state]))
            for _ in batch:
                on_frame()
            batch.clear()

    opened = open_estimator(engine, device=device, threads=threads, **(engine_options or {}))
    with closing(opened) as estimator:
        state = estimator.new_state() if chosen == "video" else None
        for frame in read_clip(clip, decoder=decoder, sampling=sampling):
            if not isinstance(frame.content, DecodeError):
                batch.append(frame.content if size is None else resize_frame(frame.content, size))
                if state is not None or len(batch) == _BATCH:
                    finish_batch()
            else:
                errors.append(frame.content)
                if frame.path is None:  # a video ends at its first damage
                    break
                finish_batch()
                results.append(_nothing(info))
                on_frame()
            numbers.append(frame.frame_index)
            paths.append(frame.path or "")
        finish_batch()
    if not results:
        raise errors[0] if errors else SourceError("{source}: no frames in it", source=source)
    pose_clip = PoseClip(
        points=np.concatenate([keypoints.points for keypoints in results]),
        scores=np.concatenate([keypoints.scores for keypoints in results]),
        sizes_wh=np.concatenate([keypoints.sizes_wh for keypoints in results]),
        others=join_people([keypoints.others for keypoints in results]),
        world=join_world(results),
        skeleton_name=info.skeleton_names[0],
        clip_id=source.name,
        frame_indices=np.array(numbers, np.int64),
        image_paths=tuple(paths) if clip.kind != "video" else (),
    )
    return pose_clip, errors


def _nothing(info: EngineInfo) -> Keypoints:
    num_points = get_skeleton(info.skeleton_names[0]).num_points
    return Keypoints(
        points=np.full((1, num_points, 3), np.nan, np.float32),
        scores=np.zeros((1, num_points), np.float32),
        sizes_wh=np.zeros((1, 2), np.int32),
        others=nobody_else(1, num_points) if info.people == "several" else None,
    )


def choose_mode(source: Path, engine: str = "holistic") -> tuple[Mode, Message]:
    """Return how the frames of a source belong together by evidence, and why."""
    if "video" not in engine_info(engine).modes:
        return "image", Message("engine {engine} has no other mode", engine=engine)
    clip = clip_at(source)
    if clip.kind == "video":
        return "video", Message("a video")
    if clip.kind == "frames" and uri_of(clip.path) is not None:
        return "video", Message("a folder at a URI, as in extract")
    why = ONE_PICTURE if clip.kind == "pictures" else judge_folder(clip.path)
    if why:
        return "image", Message(why)
    return "video", Message("numbered pictures of one size, neighbours alike")


def clip_at(source: Path) -> Clip:
    """Return the clip that a path or a URI names: a folder of pictures, a picture or a video."""
    if (uri := uri_of(source)) is not None:
        suffix = suffix_of(source.name)
        if suffix in PICTURE_SUFFIXES:
            return Clip(source.name, uri, "pictures", num_frames=1)
        return Clip(source.name, uri, "video" if suffix in VIDEO_SUFFIXES else "frames")
    if source.is_dir():
        _expect_pictures(source)
        return Clip(source.name, str(source), "frames")
    if not source.exists():
        raise SourceError(
            "{source}: no such file or folder; expected pictures or a video{hint}",
            source=source,
            hint=near_path(source),
        )
    is_picture = suffix_of(source.name) in PICTURE_SUFFIXES
    return Clip(source.name, str(source), "pictures" if is_picture else "video")


def _expect_pictures(folder: Path) -> None:
    """Raise where a folder has videos and no pictures: those are many clips."""
    names = sorted(each.name for each in folder.iterdir())
    videos = [name for name in names if suffix_of(name) in VIDEO_SUFFIXES]
    if videos and not any(suffix_of(name) in PICTURE_SUFFIXES for name in names):
        raise SourceError(
            "{folder} holds {num_videos} videos and no pictures: give one of them, as "
            "{example}, or take all: posemill extract {folder!q} --out RUN",
            folder=folder,
            num_videos=len(videos),
            example=folder / videos[0],
        )


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
    """Write a clip part by part as npz; `posemill.formats.landmarks_file` says what is in it.

    Raises:
        PosemillError: The file cannot be written there.
    """
    arrays = landmark_arrays(clip)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            Outputs(source, overwrite=overwrite).writing_file(path),
            atomic_path(path) as temporary,
            temporary.open("wb") as handle,
        ):
            np.savez(handle, **arrays)  # type: ignore[arg-type]
