"""`extract`: a whole dataset to keypoints, to the last frame, whatever happens in between."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from posemill.config import ExtractConfig
from posemill.decoders import find_decoder
from posemill.decoders.choice import settle_for_extraction
from posemill.errors import DeviceError, RunError, StoppedError
from posemill.estimators import engine_info
from posemill.estimators.identity import identity_on
from posemill.estimators.runtimes.devices import list_gpus
from posemill.executors import Limits, find_executor
from posemill.jobs.extract.coordinator import Coordinator, StopSignals
from posemill.jobs.extract.job import FrameJob
from posemill.jobs.extract.keypoints import KeypointSink
from posemill.jobs.extract.opening import open_events, recorded_tracking, source_record
from posemill.jobs.extract.plan import (
    WorkerPlan,
    frames_per_call,
    missing_gpus,
    plan_units,
    plan_workers,
)
from posemill.jobs.extract.status import Progress, log_path
from posemill.jobs.extract.worker import Worker
from posemill.machine.disk import disk_message
from posemill.machine.live_files import LogFile, now_text
from posemill.machine.processes import thread_variables
from posemill.messages import Message
from posemill.places import uri_of
from posemill.runs.events import Finished, PlannedUnit
from posemill.runs.log import EventLog
from posemill.runs.manifest import LEDGER_NAME, LOGS_NAME, SHARDS_NAME, Manifest, check_folder
from posemill.runs.reader import Run, open_run
from posemill.runs.writer import remove_uncommitted
from posemill.skeletons import get_skeleton
from posemill.sources import ClipList
from posemill.sources.tracking import decide_tracking
from posemill.weights.pull import verified_files


@dataclass(frozen=True, repr=False)
class Summary(Progress):
    """What a run of keypoints came to; `losses`: what a file written beside it cannot hold."""

    losses: tuple[str, ...] = ()

    @property
    def run(self) -> Run:
        """The run, to be read."""
        return open_run(os.fspath(self))

    def found(self) -> dict[str, float]:
        """Return the share of frames in which each part was found; empty without frames."""
        run, present, num_frames = self.run, Counter[str](), 0
        names = get_skeleton(run.skeleton_name).part_names
        for split in run.splits:
            for alike in run.outlines(split, is_grouped=True):
                num_frames += alike.num_clips * alike.num_frames
                for name, number in zip(names, alike.num_present, strict=True):
                    present[name] += alike.num_clips * number
        return {name: present[name] / num_frames for name in names if num_frames}

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**super().to_json(), "found": self.found()}


class Extraction(FrameJob):
    """Keypoints of all frames."""

    config: ExtractConfig
    summary_type = Summary

    def __init__(self, config: ExtractConfig) -> None:
        super().__init__(settled(config), config.storage)
        self.batch_size = frames_per_call(config)

    def manifest(self, clips: ClipList) -> Manifest:
        """Return what decides the keypoints; opens the engine to ask it."""
        config = self.config
        options, device = config.all_engine_options(), config.devices()[0]
        # The GPUs of a Ray cluster need not be here.
        is_here = config.executor != "ray" or not config.num_gpus or bool(list_gpus())
        try:
            engine = identity_on(device, config.engine, options, is_here=is_here)
        except DeviceError as error:
            if sentence := missing_gpus(config):
                raise DeviceError(sentence) from error
            raise
        asked = {"engine": config.engine, "engine_options": options}
        decided, source = config.deciding_options() | asked, source_record(config.source, clips)
        return Manifest(config.skeleton, "extract", decided, engine, source)

    def find_clips(self, clips: ClipList | None = None) -> ClipList:
        """Return the clips, checked, with the decision which folders of them are video.

        There is none where the user said it, or where all are videos or the frames of a corpus.
        """
        clips, config = super().find_clips(clips), self.config
        if check_folder(config.out):
            return replace(clips, tracking=recorded_tracking(config.out))
        is_said = config.mode != "auto" or config.layout not in ("auto", "list")
        is_clear = clips.layout == "phoenix" or all(clip.kind == "video" for clip in clips)
        is_clear = is_clear or clips.tracking is not None
        # What lies elsewhere is read by workers alone.
        if is_said or is_clear or any(uri_of(clip.path) for clip in clips):
            return clips
        return replace(clips, tracking=decide_tracking(clips))

    def plan(self, clips: ClipList) -> Iterable[PlannedUnit]:
        """Return chains of tracked frames, and ranges of those that stand alone."""
        return plan_units(clips, self.config, tracking=clips.tracking)

    def open_sink(self, device: str, run_id: str) -> KeypointSink:
        """Return what finds keypoints and writes them."""
        return KeypointSink(self.config, self.home.address, device=device, run_id=run_id)

    def prepare(self, events: EventLog) -> None:
        """Remove the shards that no record names."""
        if self.home.is_here:
            (self.home.work / SHARDS_NAME).mkdir(exist_ok=True)
        remove_uncommitted(self.home, events.ledger)

    def finish(self, events: EventLog, clips: ClipList) -> None:
        """Remove what no record names, and check that every shard is as it was written."""
        self.prepare(events)
        sizes = self.home.shard_sizes()
        for name, num_bytes in events.ledger.shard_sizes().items():
            if sizes.get(name) != num_bytes:
                raise RunError(
                    "{path}: {num_bytes} bytes were written, now there are {num_found}; something "
                    "else changed it",
                    path=f"{self.home.name}/{SHARDS_NAME}/{name}",
                    num_bytes=num_bytes,
                    num_found=sizes.get(name, 0),
                )


def settled(config: ExtractConfig) -> ExtractConfig:
    """Return the config with the skeleton and the mode the engine will have, and the decoder."""
    info = engine_info(config.engine, config.all_engine_options())
    info.check_mode(config.engine, config.mode)
    wanted = None if config.skeleton == "auto" else config.skeleton
    has_both = {"image", "video"} <= {*info.modes}
    return config.replace(
        skeleton=info.skeleton_to_store(config.engine, wanted),
        mode=config.mode if has_both else info.modes[0],
        decoder=settle_for_extraction(config.decoder),
    )


def extract(config: ExtractConfig, **hooks: Any) -> Summary:
    """Extract the keypoints of all clips of a source into a run; `hooks` are those of `run_job`."""
    return cast(Summary, run_job(Extraction(config), **hooks))


def run_job(
    job: FrameJob,
    *,
    clips: ClipList | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_plan: Callable[[ClipList, WorkerPlan], None] | None = None,
    on_count: Callable[[int, int], None] = lambda done, total: None,
) -> Progress:
    """Do a job to its last frame, or go on with it; `clips` that were found spare a second look.

    `on_progress` is called a few times per second; `on_plan` once before work starts, with the
    clips and the lengths of videos; `on_count` for every clip whose length has to be looked up: how
    many of how many. What was committed is safe after a `RunError` (the folder holds something
    else, or a run of other options, or is worked on; or the disk is full), and after a
    `StoppedError`, for which a signal asked: the same call continues.
    """
    home, folder = job.home, job.home.work
    check_folder(folder)
    clips = job.find_clips(clips)
    config = job.config
    find_decoder(config.decoder)  # before the folder: what is not installed leaves none
    find_executor(config.executor)
    workers = plan_workers(config)
    with ExitStack() as stack:
        stack.enter_context(_place_errors(folder))
        signals = stack.enter_context(StopSignals().caught())
        manifest = job.manifest(clips)  # before the folder: an engine that is refused leaves none
        workers = replace(workers, runtime=manifest.runtime)
        folder.mkdir(parents=True, exist_ok=True)
        records = stack.enter_context(home.owned(lambda: signals.received))

        def count(done: int, total: int) -> None:
            if signals.received:
                raise StoppedError(signals.received, home.name)
            on_count(done, total)

        events = open_events(job, clips, manifest, on_count=count, records=records)
        stack.enter_context(closing(events))
        ledger = events.ledger
        (folder / LOGS_NAME).mkdir(exist_ok=True)
        log = stack.enter_context(closing(LogFile(log_path(folder))))
        if on_plan is not None:
            pairs = zip(clips, ledger.clips(), strict=True)
            counted = [replace(clip, num_frames=known.num_frames) for clip, known in pairs]
            on_plan(replace(clips, clips=tuple(counted)), workers)
        log.write(f"start: pid {os.getpid()}, {workers.describe()}")
        if clips.tracking is not None:
            log.write(clips.tracking.describe())
        started, before = time.monotonic(), Progress(tuple(ledger.counts())).frames_done
        if is_left := ledger.finished_at() is None:
            coordinator = Coordinator(job, events, clips, log=log, on_progress=on_progress)
            _work(coordinator, job, workers, signals=signals)
        seconds = time.monotonic() - started
        ledger.check_totals()
        job.finish(events, clips)
        if is_left:
            events.record(Finished(now_text()))
        counts = tuple(ledger.counts())
        num_now = max(0, Progress(counts).frames_done - before)
        summary = job.summary_type(
            counts,
            frames_per_second=num_now / seconds if num_now and seconds else None,
            seconds=round(seconds, 3),
            reasons=tuple(ledger.reasons()),
            num_frames_now=num_now,
            num_bytes=sum(ledger.shard_sizes().values()),
            name=home.name,
            folder=job.asked if uri_of(job.asked) else job.asked.absolute(),
        )
        log.write(f"finished: {summary.describe()}")
        return summary


@contextmanager
def _place_errors(folder: Path) -> Iterator[None]:
    """Turn what a full or broken disk throws into an error that says what to do."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        ledger, refused = folder / LEDGER_NAME, error
        if isinstance(error, sqlite3.OperationalError) and "such" not in str(error):
            is_full = "full" in str(error) or "I/O" in str(error)
            refused = OSError(errno.ENOSPC if is_full else errno.EIO, str(error))
        if not isinstance(refused, OSError):
            # "no such table", too: a ledger that was emptied, of which nothing is safe.
            raise RunError(
                "{path} is damaged: {error}; put back a copy of it, or extract into another folder",
                path=ledger,
                error=error,
            ) from error
        saved = {} if ledger.exists() else {"saved": Message("nothing was begun yet")}
        raise RunError(disk_message(refused, str(folder), **saved)) from error


def _work(
    coordinator: Coordinator, job: FrameJob, workers: WorkerPlan, *, signals: StopSignals
) -> None:
    """Do what is left."""
    config = job.config
    num_tasks = coordinator.plan(workers.num_workers)
    if not num_tasks:
        return
    # One thread per worker: the work is parallel over workers already.
    environment = thread_variables(1)
    if config.temp_dir is not None:
        config.temp_dir.mkdir(parents=True, exist_ok=True)
        environment["TMPDIR"] = str(config.temp_dir)
    limits = Limits(
        timeout_seconds=config.timeout_seconds,
        # The worker itself makes room at its limit; this one is for a single step that explodes.
        memory_bytes=workers.memory_bytes * 5 // 4,
        log_folder=config.out / LOGS_NAME,
        environment=environment,
        address=config.ray_address,
        gpus_per_worker=1 / config.num_workers_per_gpu if config.num_gpus else 0.0,
        is_elastic=bool(config.ray_address) and not config.workers and not config.num_gpus,
        must_see=job.home.folder_to_see,
        files=verified_files(),  # of the engine, which was opened here for the manifest
    )
    executor = find_executor(config.executor)(min(workers.num_workers, num_tasks), limits)
    run_id = Manifest.read(config.out).run_id
    coordinator.run(executor, partial(Worker, job, workers, run_id), signals)
