"""What goes between the coordinator and its workers, and what a worker does with frames: a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from posemill.config import JobConfig
from posemill.decoders.opening import TargetSize
from posemill.decoders.sampling import Sampling
from posemill.errors import RunError
from posemill.records import Clip, Frame
from posemill.runs.events import Lost, Shard
from posemill.sources.reading import ClipReader, End, Item

# The third number of a worker's place: what it is doing with the frame.
STARTING, DECODING, ESTIMATING, WRITING = range(4)
PHASES = ("starting", "reading", "finding keypoints", "writing")


@dataclass(frozen=True)
class Unit:
    """A run of frames of one clip that one worker does in order.

    Args:
        start_frame: Its first frame.
        stop_frame: Where it ends (exclusive), None for the end of the clip.
        next_frame: Where to go on.
        state: The tracker's state before `next_frame`, None for a fresh one.
        is_chain: Whether frames depend on those before (video mode).
        skip: Frames that took workers down, with what is known about them.
        give_up: A frame from which on the unit cannot be read, and why.
    """

    unit_no: int
    clip_no: int
    clip: Clip
    start_frame: int
    stop_frame: int | None
    next_frame: int
    state: bytes | None
    is_chain: bool
    skip: Mapping[int, str] = field(default_factory=dict)
    give_up: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        frames = (self.start_frame, self.next_frame, self.stop_frame or 0)
        if not all(isinstance(number, int) for number in frames):
            raise RunError(
                "the ledger is damaged: unit {unit_no} goes on at {next_frame!r}; put back a "
                "copy of it",
                unit_no=self.unit_no,
                next_frame=self.next_frame,
            )

    def giving_up(self, frame: int, phase: int, message: str) -> Unit:
        """Return the unit without a frame that took workers down too often.

        With phase -1 nothing is tried from there on. Nor is it with a video whose decoder died: it
        cannot be read past that frame.
        """
        if phase < 0 or (self.clip.kind == "video" and phase == DECODING):
            if self.give_up is not None and self.give_up[0] < frame:
                return self
            return replace(self, give_up=(frame, message))
        return replace(self, skip={**self.skip, frame: message})


@dataclass(frozen=True)
class Task:
    """Units for one worker, one after the other.

    Args:
        name: Shards are called after it; no two tasks ever have the same.
        piece_frames: A commit is due after as many rows.
        is_careful: After a crash: one frame at a time, so that the place is exact.
        leave_after: The frame a crash was at, of the only unit: a commit before it, so that it
            is tried by itself, and one after it, with which the task ends.
    """

    name: str
    units: tuple[Unit, ...]
    piece_frames: int
    is_careful: bool = False
    leave_after: int | None = None


@dataclass(frozen=True)
class Fatal:
    """Why no worker can go on: the name of a class of `posemill.errors`, and the message."""

    kind: str
    message: str


@dataclass(frozen=True)
class Broken:
    """An engine that fails at frames that are in order, as after a CUDA error.

    The worker leaves. What it did since its last commit is done again by a new one.

    Args:
        place: As in `Died`: the frame at which it was noticed, or that the engine never worked.
    """

    worker_index: int
    place: tuple[int, int, int, int]
    message: str


class UnitState(Protocol):
    """What a sink knows of the frames of a unit before the next."""

    def copy(self) -> UnitState:
        """Return a state that later frames of this one do not change."""

    def to_bytes(self) -> bytes:
        """Return it as plain bytes, to go on with in another process."""


State = TypeVar("State", bound=UnitState)


@dataclass(eq=False)
class Lane:
    """A unit under way.

    Args:
        position: Of the unit within its task.
        next_frame: The first one that was not taken yet. Those before the unit's own are committed,
            and read again only for the state's sake.
        state: Of the sink; None where each frame stands alone.
        reader: Of its clip: the rate of its frames, and their numbers in the source.
        items: What it reads.
        num_rows: Frames that were put since the last commit.
        lost: What gave nothing since then.
        waiting: Frames that were read and not yet computed.
    """

    unit: Unit
    position: int
    next_frame: int
    state: Any
    reader: ClipReader
    items: Generator[Item | End, None, None]
    num_rows: int = 0
    lost: list[Lost] = field(default_factory=list)
    waiting: list[tuple[int, str | None, Frame]] = field(default_factory=list)


class Sink(ABC, Generic[State]):
    """What becomes of the frames that a worker reads: keypoints, pictures, packs.

    A unit begins, its frames are computed and put, and a commit makes durable what was put.

    Args:
        writes_to: For the message about a disk that refuses.
        saves_states: Whether a unit goes on by the bytes of its state; if not, it is read again
            from its start.
    """

    writes_to: str
    saves_states = True

    @property
    def has_worked(self) -> bool:
        """Whether `compute` gave a result so far."""
        return True

    @abstractmethod
    def begin(self, unit: Unit) -> State | None:
        """Return what is known of the frames of a unit before the next; None if nothing has to."""

    @abstractmethod
    def compute(self, frames: list[Frame], states: list[State] | None) -> Sequence[Any]:
        """Return a result for each frame. Whatever it raises is the reason why a frame is lost."""

    @abstractmethod
    def put(self, lane: Lane, index: int, path: str | None, result: Any) -> None:
        """Take a result for the next commit. Who writes here raises `OSError`: it ends the run."""

    @abstractmethod
    def commit(self, name: str) -> Shard | None:
        """Make all that was put durable under that name; None if there is nothing."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what was put since the last commit: its task ended before the next."""

    def state_after_failure(self, state: State) -> State:
        """Return the state to go on with behind a frame that `compute` failed at."""
        return state

    def is_broken(self) -> bool:
        """Return whether `compute` would fail at a frame that is in order; asked after it failed.

        Where it is, `has_worked` says whether it ever was not.
        """
        return False


@dataclass(frozen=True)
class WorkerSettings:
    """What every worker of a run needs to know.

    Args:
        make_sink: Returns what the frames of a worker go to, of these and its device. Called in
            the worker.
        config: What was asked for.
        folder: Of the run, or its URI.
        devices: Worker i runs on `devices[i % len(devices)]`.
        memory_bytes: A worker that is larger saves what it has and makes room for a new one.
        batch_size: How many frames are computed at once.
        sampling: Which frames of a clip are read; None for all.
        target_size: What a video's decoder brings its frames to: width and height, or the shorter
            side; None leaves them as they are.
    """

    make_sink: Callable[[WorkerSettings, str], Sink[Any]]
    config: JobConfig
    folder: str
    devices: tuple[str, ...]
    memory_bytes: int = 0
    batch_size: int = 1
    sampling: Sampling | None = None
    target_size: TargetSize = None
    run_id: str = ""
