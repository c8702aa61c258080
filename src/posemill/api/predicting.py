"""`posemill.predict`: what a trained model sees in videos, pictures, runs and prepared data."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from posemill.api.arguments import AnyPath
from posemill.api.progress import show_progress
from posemill.errors import ConfigError
from posemill.jobs.new_clips import clips_like
from posemill.outputs import Outputs
from posemill.records import PoseClip
from posemill.terminal import warn_caller
from posemill.training import front

if TYPE_CHECKING:
    from posemill.training.runs.inference import Prediction


def predict(
    run: AnyPath,
    source: AnyPath | PoseClip | Iterable[AnyPath | PoseClip],
    *,
    device: str = "auto",
    engine_device: str = "cpu",
    threads: int = 1,
    pictures: AnyPath | None = None,
    overwrite: bool = False,
    model: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Return what a run's best model says about each clip, in the order of the clips.

    For a model of keypoints a video or a folder of pictures goes through the engine first, and
    keypoints are shaped as the model's data was; a model of video looks at the frames themselves,
    one of two streams at both. What cannot be read is warned about. Of a run of `train` each is a
    `Prediction`; of a run of `fit` what the model returns for the sample.

    Args:
        run: Folder that `posemill.train` or `posemill.fit` wrote.
        source: A video, a folder of pictures or of videos, a run, or data that `prepare` wrote (a
            model of video: a list of videos, or what `frames` wrote); or several of these.
            `PoseClip`s too, which must be shaped as the model's data was. Of a run of `fit`: a data
            set or a loader.
        device: For the model: `auto`, `cpu`, `cuda` or `cuda:N`.
        engine_device: For the engine: `cpu` or `cuda:N`.
        threads: Of the engine.
        pictures: Folder for a picture of each clip with what is said of it; of a run of `train`.
        overwrite: Replace pictures that posemill did not draw for this run and source.
        model: Of a run of `fit`: a model of the same class and sizes, which gets the weights.
        collate_fn: Of a run of `fit`: as `fit` was given it.
        forward: Likewise.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    folder = Path(run)
    if front.is_of_fit(folder):
        if pictures is not None:
            raise ConfigError(
                f"{folder} was trained by fit(): only predictions of runs of train() are drawn; "
                "leave pictures out"
            )
        said = front.predict_samples(
            folder, model, source, collate_fn=collate_fn, forward=forward, device=device
        )
        return list(said)
    if model is not None:
        raise ConfigError(
            f"{folder} was trained by train() and says itself what its model is: leave model out"
        )
    items = [source] if isinstance(source, str | os.PathLike | PoseClip) else source
    drawn = None
    if pictures is not None:
        outputs = Outputs(folder, *_paths_of(source), overwrite=overwrite)
        drawn = front.pictures_in(Path(pictures), outputs)
    ask = partial(front.predict, folder, device=device, pictures=drawn)
    kind = front.input_of(folder)
    if kind == "video":
        return list(ask(items))
    found: list[Prediction] = []
    with show_progress("frames", progress=progress) as advance:
        engine = {"device": engine_device, "threads": threads, "on_frame": advance}
        if kind == "two_streams":
            return list(ask(_with_videos(folder, items, engine)))
        for is_ready, group in groupby(items, key=_is_prepared):
            if is_ready:
                for item in group:
                    found += ask(Path(str(item)))
            else:
                # One call for all of them: the model is loaded once.
                found += ask(_estimated(folder, group, engine))
    return found


def _paths_of(source: AnyPath | PoseClip | Iterable[AnyPath | PoseClip]) -> list[AnyPath]:
    """Return what tells a source from another; clips in memory have no path and are never alike."""
    items = source if isinstance(source, list | tuple) else [source]
    paths = [item for item in items if isinstance(item, str | os.PathLike)]
    return paths if len(paths) == len(items) else [uuid4().hex]


def _with_videos(
    folder: Path, items: Iterable[AnyPath | PoseClip], engine: Mapping[str, Any]
) -> Iterator[tuple[PoseClip, str]]:
    """Yield the keypoints of each video and its path, for a model of both."""
    for item in items:
        if isinstance(item, PoseClip):
            raise ConfigError(
                f"{folder} was trained on keypoints and video: expected videos, got a PoseClip"
            )
        for clip_id, path in front.videos_at(Path(item)):
            for clip in _estimated(folder, [path], engine):
                yield dataclasses.replace(clip, clip_id=clip_id), path


def _estimated(
    folder: Path, items: Iterable[AnyPath | PoseClip], engine: Mapping[str, Any]
) -> Iterator[PoseClip]:
    """Yield clips as they are, and those of sources as a run's model needs them."""
    for item in items:
        if isinstance(item, PoseClip):
            yield item
            continue
        for clip, errors in clips_like(Path(item), *front.data_of(folder), **engine):
            for error in errors:
                warn_caller(str(error))
            if clip is not None:
                yield clip


def _is_prepared(item: AnyPath | PoseClip) -> bool:
    """Return True for npz and csv files, and folders of them."""
    if isinstance(item, PoseClip):
        return False
    path = Path(item)
    return path.suffix in (".npz", ".csv") or any(path.glob("*_keypoints.npz"))
