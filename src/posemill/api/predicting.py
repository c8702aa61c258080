"""`posemill.predict`: what a trained model sees in videos, pictures, runs and prepared data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

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

    A video or a folder of pictures goes through the engine first, and keypoints are shaped as the
    model's data was. Frames that cannot be read are warned about.

    Args:
        run: Folder that `posemill.train` wrote.
        source: A video, a folder of pictures or of videos, a run, or data that `prepare` wrote; or
            several of these. `PoseClip`s too, which must be shaped as the model's data was.
        device: For the model: `auto`, `cpu`, `cuda` or `cuda:N`.
        engine_device: For the engine: `cpu` or `cuda:N`.
        threads: Of the engine.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    folder = Path(run)
    items = [source] if isinstance(source, str | os.PathLike | PoseClip) else source
    found: list[Prediction] = []
    with show_progress("frames", progress=progress) as advance:

        def clips(group: Iterator[AnyPath | PoseClip]) -> Iterator[PoseClip]:
            for item in group:
                if isinstance(item, PoseClip):
                    yield item
                    continue
                skeleton_name, recipe = front.data_of(folder)
                for clip, errors in clips_like(
                    Path(item), skeleton_name, recipe, device=engine_device, threads=threads,
                    on_frame=advance,
                ):  # fmt: skip
                    for error in errors:
                        warn_caller(str(error))
                    if clip is not None:
                        yield clip

        for is_ready, group in groupby(items, key=_is_prepared):
            if is_ready:
                for item in group:
                    found += front.predict(folder, Path(str(item)), device=device)
            else:
                # One call for all of them: the model is loaded once.
                found += front.predict(folder, clips(group), device=device)
    return found


def _is_prepared(item: AnyPath | PoseClip) -> bool:
    """Return True for npz and csv files, and folders of them."""
    if isinstance(item, PoseClip):
        return False
    path = Path(item)
    return path.suffix in (".npz", ".csv") or any(path.glob("*_keypoints.npz"))
