"""`extract`: a whole dataset to keypoints, to the last frame, whatever happens in between."""

from __future__ import annotations

import dataclasses
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from posemill.config import ExtractConfig
from posemill.decoders import DECODERS
from posemill.errors import ConfigError, RunError, StoppedError
from posemill.estimators import open_estimator
from posemill.executors import Limits, open_executor
from posemill.files import sync_folder
from posemill.jobs.coordinator import Coordinator
from posemill.jobs.ledger import Ledger
from posemill.jobs.log import RunLog
from posemill.jobs.messages import WorkerSettings
from posemill.jobs.plan import plan_units
from posemill.jobs.signals import StopSignals
from posemill.jobs.snapshot import Snapshot
from posemill.jobs.worker import MakeWorker, disk_message
from posemill.records import Clip
from posemill.sources import ClipList, find_clips
from posemill.sources.frames import with_frame_count
from posemill.stores.commits import SplitCounts
from posemill.stores.compaction import compact
from posemill.stores.lock import RunLock
from posemill.stores.manifest import SHARDS_NAME, Manifest, check_folder, now_text
from posemill.stores.writer import remove_uncommitted

# One thread per worker: the work is parallel over workers already, and spinning threads of
# several libraries in each would only take the cores from each other.
_ONE_THREAD = dict.fromkeys(
    "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS OPENCV_FOR_THREADS_NUM "
    "ARROW_NUM_THREADS".split(),
    "1",
)
_LEAST_MEMORY = 1 << 30


@dataclass(frozen=True)
class Summary:
    """What a run came to.

    Args:
        folder: The run.
        counts: Clips and frames per split: known = out + failed.
        reasons: How many frames or clips failed for each reason, the most frequent first.
    """

    folder: Path
    counts: tuple[SplitCounts, ...]
    reasons: tuple[tuple[str, int, int], ...]

    @property
    def exit_code(self) -> int:
        """0 if everything gave keypoints, 1 if something failed."""
        return 1 if self.reasons else 0

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "folder": str(self.folder),
            "splits": [dataclasses.asdict(each) for each in self.counts],
            "reasons": [
                {"reason": reason, "failures": failures, "frames": frames}
                for reason, failures, frames in self.reasons
            ],
        }


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers, of what kind, on what."""

    num_workers: int
    executor: str
    devices: tuple[str, ...]
    memory_bytes: int

    def __str__(self) -> str:
        kind = {"processes": "processes", "threads": "threads of one process"}
        what = "1 process (serial)" if self.executor == "serial" else (
            f"{self.num_workers} {kind.get(self.executor, self.executor + ' workers')}"
        )  # fmt: skip
        limit = f", at most {self.memory_bytes >> 20} MB each" if self.memory_bytes else ""
        return f"{what} x 1 thread on {', '.join(self.devices)}{limit}"


def plan_workers(config: ExtractConfig) -> WorkerPlan:
    """Return the workers a config asks for on this machine."""
    devices = tuple(config.devices())
    if config.num_gpus:
        num_workers = config.num_gpus * config.num_workers_per_gpu
    else:
        num_workers = config.workers or usable_cores()
    if config.executor == "serial":
        num_workers = 1
    memory = config.memory_limit_mb
    if memory is None and config.executor != "processes":
        memory_bytes = 0  # a new thread would be no smaller than the old one
    elif memory is None:
        share = int(0.8 * psutil.virtual_memory().total / num_workers)
        memory_bytes = max(_LEAST_MEMORY, share)
    else:
        memory_bytes = memory << 20
    return WorkerPlan(num_workers, config.executor, devices, memory_bytes)


def usable_cores() -> int:
    """Return how many cores this process may use: a container or `taskset` may allow fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def extract(
    config: ExtractConfig,
    *,
    clips: ClipList | None = None,
    on_progress: Callable[[Snapshot], None] | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
) -> Summary:
    """Extract the keypoints of all clips of a source into a run; continue it if it was begun.

    Args:
        config: What, where, how.
        clips: What `find_clips` found, to spare a second look.
        on_progress: Called a few times per second.
        on_plan: Called once before work starts.

    Raises:
        RunError: The folder holds something else, or a run of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it; the same call continues.
    """
    if config.decoder not in DECODERS:
        raise ConfigError(f"unknown decoder {config.decoder!r}; known: {', '.join(DECODERS)}")
    folder = config.out
    check_folder(folder)
    if clips is None:
        clips = find_clips(config.source, layout=config.layout, splits=config.splits)
    workers = plan_workers(config)
    with ExitStack() as stack:
        stack.enter_context(_storage_errors(folder))
        folder.mkdir(parents=True, exist_ok=True)
        signals = stack.enter_context(StopSignals())
        stack.enter_context(RunLock(folder))
        ledger = _open_run(folder, config, clips, signals=signals)
        stack.enter_context(closing(ledger))
        log = stack.enter_context(closing(RunLog(folder)))
        if on_plan is not None:
            on_plan(clips, workers)
        log.write(f"start: pid {os.getpid()}, {workers}")
        coordinator = Coordinator(
            folder, ledger, clips, config=config, log=log, on_progress=on_progress
        )
        _work(coordinator, config, workers, log=log, signals=signals)
        return _finish(folder, ledger, log)


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Turn what a full or broken disk throws into an error that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        is_full = "full" in str(error) or "I/O" in str(error)
        code = errno.ENOSPC if is_full else errno.EIO
        raise RunError(disk_message(OSError(code, str(error)), str(folder))) from error
    except OSError as error:
        raise RunError(disk_message(error, str(folder))) from error


def _open_run(
    folder: Path, config: ExtractConfig, clips: ClipList, *, signals: StopSignals
) -> Ledger:
    """Return the ledger, planned; refuse to go on with other options or another source."""
    manifest = _manifest(config, clips)
    is_new = not check_folder(folder)
    if is_new:  # the manifest first: it is what makes the folder ours
        manifest.write(folder)
    else:
        _compare(folder, manifest)
    (folder / SHARDS_NAME).mkdir(exist_ok=True)
    sync_folder(folder.parent)
    ledger = Ledger(folder)
    try:
        if not ledger.is_planned:
            counted = _count_frames(clips, folder, signals)
            ledger.add_plan(counted, plan_units(counted, config))
        _check_source(folder, ledger, clips, config=config, manifest=manifest)
        if config.retry_failed:
            ledger.reset_failed()
        remove_uncommitted(folder, ledger)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _count_frames(clips: ClipList, folder: Path, signals: StopSignals) -> list[Clip]:
    """Return the clips with the lengths of videos filled in; looks into each file."""
    counted = []
    for clip in clips:
        if signals.received:
            raise StoppedError(signals.received, folder)
        counted.append(with_frame_count(clip) if clip.num_frames is None else clip)
    return counted


def _manifest(config: ExtractConfig, clips: ClipList) -> Manifest:
    estimator = open_estimator(
        config.engine, device=config.devices()[0], threads=1, **config.engine_options
    )
    with closing(estimator):
        identity = estimator.identity()
    known = sum(clip.num_frames or 0 for clip in clips)
    return Manifest(
        config.skeleton_name,
        kind="extract",
        options=config.deciding_options(),
        engine=identity,
        source={
            "path": os.fsencode(os.path.abspath(config.source)).decode("utf-8", "backslashreplace"),  # noqa: PTH100
            "layout": clips.layout,
            "fingerprint": clips.fingerprint,
            "num_clips": len(clips),
            "num_frames": known,
        },
    )


# May be another when a run goes on: a dataset that was moved, and what `_check_source` looks at.
_FREE_SOURCE = ("path", "fingerprint", "num_clips", "num_frames")


def _compare(folder: Path, manifest: Manifest) -> None:
    old = Manifest.read(folder)
    if old.kind != "extract":
        raise RunError(f"{folder} was made by {old.kind}, not by extract; choose another folder")
    source = {**manifest.source, **{name: old.source.get(name) for name in _FREE_SOURCE}}
    differences = old.differences(dataclasses.replace(manifest, source=source))
    if differences:
        raise RunError(
            f"{folder} was begun with other options, so it cannot go on with these:\n  "
            + "\n  ".join(differences)
            + "\nuse the same options, or another folder"
        )


def _check_source(
    folder: Path, ledger: Ledger, clips: ClipList, *, config: ExtractConfig, manifest: Manifest
) -> None:
    old = Manifest.read(folder)
    if old.source["fingerprint"] == clips.fingerprint:
        return
    changes, only_failed = ledger.changes_of(clips)
    if config.retry_failed and only_failed:
        ledger.accept_changes(clips)
        dataclasses.replace(old, source=manifest.source).write(folder)
        return
    shown = changes[:5] + ([f"… and {len(changes) - 5} more"] if len(changes) > 5 else [])
    raise RunError(
        f"the source is not the one {folder} was begun with:\n  "
        + "\n  ".join(shown or ["frames were renamed, added or removed inside of clips"])
        + "\nput it back as it was, or use another folder"
    )


def _work(
    coordinator: Coordinator,
    config: ExtractConfig,
    workers: WorkerPlan,
    *,
    log: RunLog,
    signals: StopSignals,
) -> None:
    num_tasks = coordinator.plan(workers.num_workers)
    if not num_tasks:
        return
    environment = dict(_ONE_THREAD)
    if config.temp_dir is not None:
        config.temp_dir.mkdir(parents=True, exist_ok=True)
        environment["TMPDIR"] = str(config.temp_dir)
    default_batch = 16 if config.num_gpus else 1
    settings = WorkerSettings(
        folder=str(config.out),
        engine=config.engine,
        engine_options=dict(config.engine_options),
        devices=workers.devices,
        skeleton_name=config.skeleton_name,
        decoder=config.decoder,
        batch_size=config.batch_size or default_batch,
        memory_bytes=workers.memory_bytes,
    )
    limits = Limits(
        timeout_seconds=config.timeout_seconds,
        # The worker itself makes room at its limit; this one is for a single step that explodes.
        memory_bytes=workers.memory_bytes * 5 // 4,
        log_folder=log.folder,
        environment=environment,
    )
    executor = open_executor(config.executor, min(workers.num_workers, num_tasks), limits)
    coordinator.run(executor, MakeWorker(settings), signals)


def _finish(folder: Path, ledger: Ledger, log: RunLog) -> Summary:
    """Tidy up, check that everything adds up, and mark the run as finished."""
    ledger.check_totals()
    compact(folder, ledger)
    remove_uncommitted(folder, ledger)
    _check_shards(folder, ledger)
    with ledger.transaction():
        ledger.set_meta(finished_at=now_text())
    summary = Summary(folder, tuple(ledger.counts()), tuple(ledger.reasons()))
    log.write("finished: " + ", ".join(
        f"{each.split} {each.frames_out} frames, {each.frames_failed} failed"
        for each in summary.counts
    ))  # fmt: skip
    return summary


def _check_shards(folder: Path, ledger: Ledger) -> None:
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(folder / SHARDS_NAME)}
    for name, num_bytes in ledger.shard_sizes():
        if sizes.get(name) != num_bytes:
            raise RunError(
                f"{folder / SHARDS_NAME / name}: {num_bytes} bytes were written, now there are "
                f"{sizes.get(name, 'none')}; something else changed it"
            )
