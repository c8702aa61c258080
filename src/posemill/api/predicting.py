"""`posemill.predict`: what a trained model sees in videos, pictures, runs and prepared data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posemill.api.arguments import AnyPath
from posemill.api.progress import show_progress
from posemill.jobs.new_clips import clips_like
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
    progress: bool | None = None,
) -> list[Prediction]:
    """Return what a run's best model says about each clip, in the order of the clips.

    For a model of keypoints a video or a folder of pictures goes through the engine first, and
    keypoints are shaped as the model's data was; a model of video looks at the frames themselves.
    What cannot be read is warned about.

    Args:
        run: Folder that `posemill.train` wrote.
        source: A video, a folder of pictures or of videos, a run, or data that `prepare` wrote (a
            model of video: a list of videos, or what `frames` wrote); or several of these.
            `PoseClip`s too, which must be shaped as the model's data was.
        device: For the model: `auto`, `cpu`, `cuda` or `cuda:N`.
        engine_device: For the engine: `cpu` or `cuda:N`.
        threads: Of the engine.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    folder = Path(run)
    items = [source] if isinstance(source, str | os.PathLike | PoseClip) else source
    if front.input_of(folder) == "video":
        return list(front.predict(folder, items, device=device))
    found: list[Prediction] = []
    with show_progress("frames", progress=progress) as advance:
        how = {"device": engine_device, "threads": threads, "on_frame": advance}
        for is_ready, group in groupby(items, key=_is_prepared):
            if is_ready:
                for item in group:
                    found += front.predict(folder, Path(str(item)), device=device)
            else:
                # One call for all of them: the model is loaded once.
                found += front.predict(folder, _estimated(folder, group, how), device=device)
    return found


def _estimated(
    folder: Path, items: Iterable[AnyPath | PoseClip], how: Mapping[str, Any]
) -> Iterator[PoseClip]:
    """Yield clips as they are, and those of sources as a run's model needs them."""
    for item in items:
        if isinstance(item, PoseClip):
            yield item
            continue
        for clip, errors in clips_like(Path(item), *front.data_of(folder), **how):
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
