"""`posemill.frames`: videos decoded once, for trainings that read them in every epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posemill.api.arguments import AnyPath
from posemill.api.run_progress import ProgressView
from posemill.config import FramesConfig
from posemill.errors import ConfigError
from posemill.jobs.extract.workers import WorkerPlan
from posemill.jobs.frames.run import FramesSummary, write_frames
from posemill.sources import ClipList


def frames(
    source: FramesConfig | AnyPath,
    out: AnyPath | None = None,
    *,
    progress: bool | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    **settings: Any,
) -> FramesSummary:
    """Decode all clips of a source once, into pictures or packs with an `index.csv`.

    What came of it is in the result: counts, reasons of failures, and `index`, the table that
    `posemill.VideoClips` reads. A clip that cannot be read is no exception, it is counted there.

    Args:
        source: Videos, one of them, a list of them, folders of frames; or a `FramesConfig`, which
            says all the rest too.
        out: The folder of the frames; the same call continues.
        progress: Bars on a terminal or a line in a notebook; True also for lines in a log, False
            for nothing.
        on_plan: Called once before work starts, with the clips and the lengths of videos.
        settings: All other fields of `FramesConfig`, as `posemill frames` has them as flags:
            `size=256`, `short_side=True`, `pack=True` …

    Raises:
        RunError: The folder holds something else, or frames of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it (Ctrl-C); the same call continues.
    """
    if isinstance(source, FramesConfig):
        if out is not None or settings:
            more = ", ".join([*(["out"] if out is not None else []), *settings])
            raise ConfigError(f"a FramesConfig says everything; {more} came beside it")
        config = source
    else:
        given = {"source": source, "out": out, **settings}
        config = FramesConfig(**{name: value for name, value in given.items() if value is not None})
    with ProgressView(progress) as view:
        return write_frames(config, on_progress=view.show, on_plan=on_plan, on_count=view.count)
