"""`posemill.extract`: a whole dataset to keypoints."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posemill.api.arguments import run_and_file
from posemill.api.converting import export
from posemill.api.run_progress import ProgressView
from posemill.config import ExtractConfig
from posemill.errors import ConfigError
from posemill.jobs.extract.run import Summary
from posemill.jobs.extract.run import extract as run_extraction
from posemill.jobs.extract.snapshot import Snapshot
from posemill.jobs.extract.workers import WorkerPlan
from posemill.outputs import Outputs
from posemill.sources import ClipList, find_files


def extract(
    source: ExtractConfig | os.PathLike[str] | str | Sequence[os.PathLike[str] | str],
    out: os.PathLike[str] | str | None = None,
    *,
    progress: bool | None = None,
    clips: ClipList | None = None,
    on_progress: Callable[[Snapshot], None] | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    on_count: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Summary:
    """Extract the keypoints of all clips of a source into a run; continue it if it was begun.

    What came of it is in the result: counts, reasons of failures, and `run`, to be read. A clip
    that cannot be read is no exception, it is counted there.

    Args:
        source: A frame tree, a folder of videos or pictures, one file, a list, a known dataset; or
            several files, `["a.mp4", "b.mp4"]`; or an `ExtractConfig`, which says all the rest too.
        out: The run's folder; or a file, `keypoints.pkl`, that its keypoints are exported to: the
            run is `keypoints.run` beside it.
        progress: Bars on a terminal or a line in a notebook; True also for lines in a log, False
            for nothing.
        clips: What `posemill.sources.find_clips` found, to spare a second look.
        on_progress: Called a few times per second.
        on_plan: Called once before work starts, with the clips and the lengths of videos.
        on_count: Called for every clip whose length has to be looked up: how many are done, of
            how many.
        settings: All other fields of `ExtractConfig`, as `posemill extract` has them as flags:
            `workers=2`, `splits=["train"]`, `mode="image"` …

    Raises:
        RunError: The folder holds something else, or a run of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it (Ctrl-C); the same call continues.
    """
    if not isinstance(source, (str, os.PathLike, ExtractConfig)):
        source, clips = find_files(source)
    config, file = split_out(_config(source, out, settings))
    if file is not None:  # before the work of hours
        Outputs(config.out, overwrite=config.overwrite).claim_file(file)

    def show(snapshot: Snapshot) -> None:
        view.show(snapshot)
        if on_progress is not None:
            on_progress(snapshot)

    def count(done: int, total: int) -> None:
        view.count(done, total)
        if on_count is not None:
            on_count(done, total)

    with ProgressView(progress) as view:
        summary = run_extraction(
            config, clips=clips, on_progress=show, on_plan=on_plan, on_count=count
        )
    if file is not None and summary.num_frames:
        exported = export(config.out, out=file, overwrite=config.overwrite, progress=progress)
        summary = dataclasses.replace(summary, losses=exported.losses)
    return summary


def split_out(config: ExtractConfig) -> tuple[ExtractConfig, Path | None]:
    """Return the settings with the run's folder, and the file that is asked for, if one is."""
    folder, file = run_and_file(config.out)
    return (config, None) if file is None else (config.replace(out=folder), file)


def _config(
    source: ExtractConfig | os.PathLike[str] | str,
    out: os.PathLike[str] | str | None,
    settings: dict[str, Any],
) -> ExtractConfig:
    if isinstance(source, ExtractConfig):
        if out is not None or settings:
            more = ", ".join([*(["out"] if out is not None else []), *settings])
            raise ConfigError(f"an ExtractConfig says everything; {more} came beside it")
        return source
    given = {"source": source, "out": out, **settings}
    return ExtractConfig(**{name: value for name, value in given.items() if value is not None})
