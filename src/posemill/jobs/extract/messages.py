"""What goes between the coordinator and its workers: tasks there, commits back. All picklable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from posemill.decoders.opening import TargetSize
from posemill.decoders.sampling import Sampling
from posemill.errors import RunError
from posemill.estimators import ClipState
from posemill.records import Clip, Frame
from posemill.runs.events import Shard

if TYPE_CHECKING:
    from posemill.jobs.extract.reading import Lane

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


class FrameHandler(Protocol):
    """What a worker does with the frames it reads: finds keypoints in them, keeps them as pictures.

    Args:
        writes_to: For the message about a disk that refuses.
        saves_states: Whether a unit goes on by the bytes of its state; if not, it is read again
            from its start.
    """

    writes_to: str
    saves_states: bool

    @property
    def has_worked(self) -> bool:
        """Whether `compute` gave a result so far."""

    def begin(self, unit: Unit) -> ClipState | None:
        """Return what is known of the frames of a unit before the next; None if nothing has to."""

    def state_after_failure(self, state: ClipState) -> ClipState:
        """Return the state to go on with behind a frame that `compute` failed at."""

    def compute(self, frames: list[Frame], states: list[ClipState] | None) -> Sequence[Any]:
        """Return a result for each frame. Whatever it raises is the reason why a frame is lost."""

    def is_broken(self) -> bool:
        """Return whether `compute` would fail at a frame that is in order; asked after it failed.

        Where it is, `has_worked` says whether it ever was not.
        """

    def keep(self, lane: Lane, index: int, path: str | None, result: Any) -> None:
        """Add a result to `lane.found`. Who writes here raises `OSError`, which ends the run."""

    def collect(self, lane: Lane) -> None:
        """Make `lane.found`, which is not empty, part of the next commit."""

    def write(self, name: str) -> Shard | None:
        """Make all that was collected durable under that name; None if there is nothing."""


@dataclass(frozen=True)
class WorkerSettings(ABC):
    """What every worker of a run needs to know.

    Args:
        devices: Worker i runs on `devices[i % len(devices)]`.
        memory_bytes: A worker that is larger saves what it has and makes room for a new one.
        sampling: Which frames of a clip are read; None for all.
        target_size: What a video's decoder brings its frames to: width and height, or the shorter
            side; None leaves them as they are.
    """

    folder: str
    decoder: str
    devices: tuple[str, ...]
    batch_size: int
    memory_bytes: int
    sampling: Sampling | None = field(default=None, kw_only=True)
    target_size: TargetSize = field(default=None, kw_only=True)

    @abstractmethod
    def open(self, device: str) -> FrameHandler:
        """Return what handles the frames of a worker. Called in the worker."""
