"""`posemill.frames`: videos decoded once; `posemill.bench_decode`: which decoder is quickest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from posemill.api.arguments import AnyPath
from posemill.api.progress import show_progress
from posemill.api.run_progress import ProgressView
from posemill.config import FramesConfig
from posemill.errors import ConfigError, SourceError
from posemill.files import near_path
from posemill.inspection.decoding import DecodeReport, installed_decoders, measure_decoders
from posemill.jobs.extract.workers import WorkerPlan
from posemill.jobs.frames.run import FramesSummary, write_frames
from posemill.outputs import expect_folder
from posemill.sources import ClipList, find_clips


def bench_decode(
    videos: AnyPath | Sequence[AnyPath], *, seconds: float = 1.0, progress: bool | None = None
) -> DecodeReport:
    """Measure every installed decoder on these videos; `decoder="auto"` takes the quickest.

    Args:
        videos: Files, or folders of videos.
        seconds: That each way to read is repeated for.
        progress: As in `frames`.

    Raises:
        SourceError: There is no such file or folder.
    """
    if not seconds > 0:
        raise ConfigError(f"seconds: expected more than 0, got {seconds}")
    places = [videos] if isinstance(videos, (str, os.PathLike)) else videos
    paths = [path for place in places for path in _videos_at(place)]
    total = len(paths) * len(installed_decoders()[0])
    with show_progress("measuring decoders", total, progress=progress) as advance:
        return measure_decoders(paths, seconds=seconds, on_step=advance)


def _videos_at(place: AnyPath) -> list[Path]:
    path = Path(os.fsdecode(place))
    if path.is_dir():
        return [Path(clip.path) for clip in find_clips(path, layout="videos")]
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder; expected a video" + near_path(path))
    return [path]


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
    expect_folder(config.out, kind="what `frames` writes")
    with ProgressView(progress) as view:
        return write_frames(config, on_progress=view.show, on_plan=on_plan, on_count=view.count)
