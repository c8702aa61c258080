"""A job on all frames of a source: what is asked for, what becomes of the frames, and what goes
between the coordinator and its workers.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from posemill.config import JobConfig
from posemill.decoders.opening import TargetSize
from posemill.decoders.sampling import fewer_frames
from posemill.errors import ConfigError
from posemill.jobs.extract.status import Progress
from posemill.records import Frame
from posemill.runs.events import Lost, PlannedUnit, Shard
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Unit
from posemill.sources import ClipList, find_clips
from posemill.sources.reading import ClipReader, End, Item, Part, count_frames

PHASES = ("starting", "reading", "finding keypoints", "writing")


class Phase(IntEnum):
    """The third number of a worker's place: what it is doing with the frame."""

    STARTING, DECODING, ESTIMATING, WRITING = range(4)


@dataclass(frozen=True)
class Task:
    """Units for one worker, one after the other, as far as they are left.

    `suspect_frame` is that of the only unit at which a worker died: a commit comes before it, so
    that it is tried by itself, and one after it, with which the task ends.
    """

    units: tuple[Unit, ...]
    name: str = ""  # shards are called after it; given when it is handed out, to no other task ever
    tries: int = 0  # how often workers died of it without any progress
    suspect_frame: int | None = None

    @property
    def is_careful(self) -> bool:
        """After a crash: one frame at a time, so that the place is exact."""
        return self.tries > 0 or self.suspect_frame is not None


def part_of(unit: Unit, start: int | None = None) -> Part:
    """Return what is read of a unit, from where it goes on or from `start`."""
    skip: dict[int, str] = {}
    ends: list[tuple[int, str]] = []
    for frame, phase, message in unit.given_up:
        # With phase -1 nothing is tried from there on. Nor is it with a video whose decoder died:
        # it cannot be read past that frame.
        if phase < 0 or (unit.clip.kind == "video" and phase == Phase.DECODING):
            ends.append((frame, message))
        else:
            skip[frame] = message
    start = unit.next_frame if start is None else start
    return Part(start, unit.stop_frame, skip, min(ends, default=None))


@dataclass(frozen=True)
class Fatal:
    """Why no worker can go on: the name of a class of `posemill.errors`, and the message."""

    kind: str
    message: str


@dataclass(eq=False)
class Lane:
    """A unit under way, and what came of it since the last commit.

    `next_frame` is the first one that was not taken yet. Those before the unit's own are committed,
    and read again only for the state's sake.
    """

    unit: Unit
    position: int  # of the unit within its task
    next_frame: int
    state: Any  # of the sink; None where each frame stands alone
    reader: ClipReader
    items: Generator[Item | End, None, None]
    # Number, file and what the sink keeps of frames that were put.
    rows: list[tuple[int, str | None, Any]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    is_done: bool = False


class Sink(ABC):
    """What becomes of the frames that a worker reads: keypoints, pictures, packs.

    A unit begins, its frames are computed and put, and a commit makes durable what was put. The
    state of a unit has `to_bytes` and, for batches, `copy`, as `posemill.estimators.ClipState`.
    """

    writes_to: str  # for the message about a disk that refuses
    saves_states = True  # a unit goes on by the bytes of its state; else it is read from its start
    has_worked = True  # whether `compute` gave a result so far

    @abstractmethod
    def begin(self, unit: Unit) -> Any:
        """Return what is known of the frames of a unit before the next; None if nothing has to."""

    @abstractmethod
    def compute(self, frames: list[Frame], states: list[Any] | None) -> Sequence[Any]:
        """Return a result for each frame. Whatever it raises is the reason why a frame is lost."""

    def put(self, lane: Lane, result: Any) -> Any:
        """Return what to keep of a result until the commit.

        Who writes here raises `OSError`: it ends the run.
        """
        return result

    @abstractmethod
    def commit(self, name: str, lanes: Sequence[Lane]) -> Shard:
        """Make the rows of lanes that have some durable under that name."""

    def state_after_failure(self, state: Any) -> Any:
        """Return the state to go on with behind a frame that `compute` failed at."""
        return state

    def is_broken(self) -> bool:
        """Return whether `compute` would fail at a frame that is in order; asked after it failed.

        Where it is, `has_worked` says whether it ever was not.
        """
        return False


class FrameJob(ABC):
    """What `run_job` does with all frames of a source; every worker has a copy of it."""

    batch_size = 1  # how many frames are computed at once
    target_size: TargetSize = None  # of frames out of videos; None: as is
    summary_type: type[Progress]

    def __init__(self, config: JobConfig, storage: str = "local") -> None:
        self.asked, self.home = config.out, RunHome.at(config.out, storage)
        self.config: Any = config.replace(out=self.home.work)  # the folder this machine works in
        self.sampling = fewer_frames(config.fps, config.stride)

    def find_clips(self, clips: ClipList | None = None) -> ClipList:
        """Return the clips of the source, or these, checked; settle what is left to them.

        What was decided about them when the run was begun stays as it was.
        """
        config = self.config
        if clips is None:
            clips = find_clips(config.source, layout=config.layout, splits=config.splits)
        has_seconds = all(clip.kind == "video" or clip.listed_fps is not None for clip in clips)
        if config.fps is not None and not has_seconds:
            raise ConfigError(
                "{--fps} needs videos: folders of pictures do not say how many a second they are; "
                "give the index.csv of posemill frames as the source, which does, or use {--stride}"
            )
        return clips

    def count_frames(
        self, clips: ClipList, on_count: Callable[[int, int], None] = lambda done, total: None
    ) -> ClipList:
        """Return the clips with the numbers of frames that are wanted; looks into each video.

        `on_count` hears how many are done, of how many.
        """
        counted, sampling = list(clips), self.sampling
        unknown = [i for i, clip in enumerate(counted) if sampling or clip.num_frames is None]
        for done, index in enumerate(unknown, start=1):
            length = count_frames(counted[index], self.config.decoder, sampling)
            counted[index] = dataclasses.replace(counted[index], num_frames=length)
            on_count(done, len(unknown))
        return dataclasses.replace(clips, clips=tuple(counted))

    @abstractmethod
    def manifest(self, clips: ClipList) -> Manifest:
        """Return what was asked for: a begun run goes on only with the same."""

    @abstractmethod
    def plan(self, clips: ClipList) -> Iterable[PlannedUnit]:
        """Return the units of work of all clips."""

    @abstractmethod
    def open_sink(self, device: str, run_id: str) -> Sink:
        """Return what the frames of a worker go to. Called in the worker."""

    @abstractmethod
    def prepare(self, events: EventLog) -> None:
        """Bring the run's folder to where the ledger is: before the work, and after."""

    @abstractmethod
    def finish(self, events: EventLog, clips: ClipList) -> None:
        """Check and complete what the workers made."""
