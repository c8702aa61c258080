"""`extract`: a whole dataset to keypoints, to the last frame, whatever happens in between."""

from __future__ import annotations

import dataclasses
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.config import ExtractConfig, size_of
from posemill.decoders import find_decoder
from posemill.errors import RunError
from posemill.executors import Limits, open_executor
from posemill.jobs.extract.coordinator import Coordinator
from posemill.jobs.extract.keypoints import KeypointSettings
from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.log import RunLog
from posemill.jobs.extract.opening import open_ledger, settled
from posemill.jobs.extract.signals import StopSignals
from posemill.jobs.extract.snapshot import Snapshot, failed_text
from posemill.jobs.extract.worker import MakeWorker
from posemill.jobs.extract.workers import WorkerPlan, frames_per_call, plan_workers
from posemill.machine.disk import disk_message
from posemill.machine.live_files import now_text
from posemill.machine.processes import thread_variables
from posemill.skeletons import get_skeleton
from posemill.sources import ClipList, find_clips
from posemill.stores.commits import SplitCounts
from posemill.stores.compaction import compact
from posemill.stores.lock import RunLock
from posemill.stores.manifest import LEDGER_NAME, SHARDS_NAME, check_folder
from posemill.stores.reader import Run, open_run
from posemill.stores.writer import remove_uncommitted
from posemill.terminal import in_singular


@dataclass(frozen=True, repr=False)
class Summary:
    """What a run came to; stands for its folder wherever a path is expected.

    Args:
        folder: The run.
        counts: Clips and frames per split: known = out + failed.
        reasons: How many frames or clips failed for each reason, the most frequent first.
        num_frames_now: Frames that this call went through; others were done before.
        seconds: That it worked.
    """

    folder: Path
    counts: tuple[SplitCounts, ...]
    reasons: tuple[tuple[str, int, int], ...]
    num_frames_now: int = 0
    seconds: float = 0.0

    def __repr__(self) -> str:
        failed = failed_text(self.num_frames_failed, self.num_clips_failed)
        counts = in_singular(f"{self.num_clips} clips, {self.num_frames} frames")
        return f"Summary({str(self.folder)!r}, {counts}, {failed})"

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def run(self) -> Run:
        """The run, to be read."""
        return open_run(self.folder)

    @property
    def num_clips(self) -> int:
        """Clips that gave keypoints, in all splits."""
        return sum(each.num_clips - each.clips_failed for each in self.counts)

    @property
    def num_frames(self) -> int:
        """Frames that gave keypoints, in all splits."""
        return sum(each.frames_out for each in self.counts)

    @property
    def num_clips_failed(self) -> int:
        """Clips that gave none at all; why is in `reasons`."""
        return sum(each.clips_failed for each in self.counts)

    @property
    def num_frames_failed(self) -> int:
        """Frames that gave none."""
        return sum(each.frames_failed for each in self.counts)

    @property
    def frames_per_second(self) -> float | None:
        """How fast this call was; None where there was nothing left to do."""
        return self.num_frames_now / self.seconds if self.num_frames_now and self.seconds else None

    def found(self) -> dict[str, float]:
        """Return the share of frames in which each part was found; empty without frames."""
        run = self.run
        parts = [part.name for part in get_skeleton(run.skeleton_name).parts]
        present, num_frames = [0] * len(parts), 0
        for split in run.splits:
            for each in run.found_counts(split, is_grouped=True) or ():
                number = each.num_clips
                num_frames += number * each.num_frames
                present = [a + number * b for a, b in zip(present, each.num_present, strict=True)]
        if not num_frames:
            return {}
        return {name: count / num_frames for name, count in zip(parts, present, strict=True)}

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
            "found": self.found(),
            "seconds": round(self.seconds, 3),
            "frames_per_second": self.frames_per_second,
        }


def extract(
    config: ExtractConfig,
    *,
    clips: ClipList | None = None,
    on_progress: Callable[[Snapshot], None] | None = None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    on_count: Callable[[int, int], None] | None = None,
) -> Summary:
    """Extract the keypoints of all clips of a source into a run; continue it if it was begun.

    Args:
        config: What, where, how.
        clips: What `find_clips` found, to spare a second look.
        on_progress: Called a few times per second.
        on_plan: Called once before work starts, with the clips and the lengths of videos.
        on_count: Called for every clip whose length has to be looked up: how many are done, of
            how many.

    Raises:
        RunError: The folder holds something else, or a run of other options, or is worked on; or
            the disk is full. What was committed is safe.
        StoppedError: A signal asked for it; the same call continues.
    """
    find_decoder(config.decoder)
    config = settled(config)
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
        ledger, clips = open_ledger(folder, config, clips, signals=signals, on_count=on_count)
        stack.enter_context(closing(ledger))
        log = stack.enter_context(closing(RunLog(folder)))
        if on_plan is not None:
            on_plan(dataclasses.replace(clips, clips=ledger.with_lengths(clips)), workers)
        log.write(f"start: pid {os.getpid()}, {workers}")
        started, before = time.monotonic(), _num_done(ledger)
        if clips.tracking is not None:
            log.write(str(clips.tracking))
        finished_at = ledger.finished_at()
        coordinator = Coordinator(
            folder, ledger, clips, config=config, log=log, on_progress=on_progress
        )
        if _work(coordinator, config, workers, log=log, signals=signals):
            finished_at = None
        seconds = time.monotonic() - started
        summary = _finish(folder, ledger, log, finished_at or now_text())
        num_now = max(0, _num_done(ledger) - before)
        return dataclasses.replace(summary, num_frames_now=num_now, seconds=seconds)


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Turn what a full or broken disk throws into an error that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        is_full = "full" in str(error) or "I/O" in str(error)
        code = errno.ENOSPC if is_full else errno.EIO
        raise RunError(_say_disk(OSError(code, str(error)), folder)) from error
    except sqlite3.DatabaseError as error:
        raise RunError(
            f"{folder / LEDGER_NAME} is damaged: {error}; put back a copy of it, or extract into "
            "another folder"
        ) from error
    except OSError as error:
        raise RunError(_say_disk(error, folder)) from error


def _say_disk(error: OSError, folder: Path) -> str:
    if (folder / LEDGER_NAME).exists():
        return disk_message(error, str(folder))
    return disk_message(error, str(folder), saved="nothing was begun yet")


def _work(
    coordinator: Coordinator,
    config: ExtractConfig,
    workers: WorkerPlan,
    *,
    log: RunLog,
    signals: StopSignals,
) -> bool:
    """Do what is left; return whether anything was."""
    num_tasks = coordinator.plan(workers.num_workers)
    if not num_tasks:
        return False
    # One thread per worker: the work is parallel over workers already.
    environment = thread_variables(1)
    if config.temp_dir is not None:
        config.temp_dir.mkdir(parents=True, exist_ok=True)
        environment["TMPDIR"] = str(config.temp_dir)
    settings = KeypointSettings(
        folder=str(config.out),
        engine=config.engine,
        engine_options=dict(config.engine_options),
        devices=workers.devices,
        skeleton_name=config.skeleton,
        decoder=config.decoder,
        resize_wh=size_of(config.resize),
        batch_size=frames_per_call(config),
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
    return True


def _num_done(ledger: Ledger) -> int:
    return sum(each.frames_out + each.frames_failed for each in ledger.counts())


def _finish(folder: Path, ledger: Ledger, log: RunLog, finished_at: str) -> Summary:
    """Tidy up, check that everything adds up, and mark the run as finished."""
    ledger.check_totals()
    compact(folder, ledger)
    remove_uncommitted(folder, ledger)
    _check_shards(folder, ledger)
    with ledger.transaction():
        ledger.set_meta(finished_at=finished_at)
    summary = Summary(folder, tuple(ledger.counts()), tuple(ledger.reasons()))
    log.write("finished: " + ", ".join(
        f"{each.split} {each.frames_out} frames, "
        + failed_text(each.frames_failed, each.clips_failed)
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
