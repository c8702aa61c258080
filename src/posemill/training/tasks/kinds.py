"""The kinds of data a training learns from: what each has to say, and where it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import nn

from posemill.records import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.data.labels import Groups, LabelledClip
    from posemill.training.tasks.workload import Split

_KINDS = {
    "keypoints": "posemill.training.tasks.keypoint_kind:KeypointKind",
    "video": "posemill.training.tasks.video_kind:VideoKind",
    "two_streams": "posemill.training.tasks.two_stream_kind:TwoStreamKind",
}


class NewClip(NamedTuple):
    """A clip that a trained model is to look at.

    Args:
        clip_id: Its id.
        batch: The clip alone, as the model takes it.
        points: `(T, K, D)` and mask `(T, K)`, as they were found; None of video.
        frames: `(T, height, width, 3)` uint8 of video, as the model is shown them.
    """

    clip_id: str
    batch: Any
    points: tuple[FloatArray, BoolArray] | None = None
    frames: npt.NDArray[np.uint8] | None = None


class ClipSet(Protocol):
    """The clips of one split."""

    @property
    def targets(self) -> Sequence[int | IntArray]:
        """Class, or gloss indices `(L,)`, of each clip."""

    @property
    def clip_ids(self) -> Sequence[str]:
        """One per clip."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class; for ctc glosses after `<blank>` and `<unk>`."""

    @property
    def lengths(self) -> IntArray:
        """`(N,)`: frames of each clip."""

    @property
    def is_share(self) -> bool:
        """Whether these clips were set aside out of the training clips."""

    @property
    def groups(self) -> Groups:
        """Whose each clip is."""

    @property
    def num_too_short(self) -> int:
        """Clips with fewer output steps than their glosses need."""

    def __len__(self) -> int: ...


class Kind(Protocol):
    """One kind of data: how it is read, put into batches, given to a model and shown."""

    name: str

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip with its label, split and group."""

    def load_sets(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, ClipSet]:
        """Return the sets by split, everything checked that can be checked before training.

        Args:
            config: The settings.
            class_names: Those of a trained model; from the train split where None.
            splits: Only these; all where None.
        """

    def make_split(self, config: TrainConfig, clips: Any, *, is_training: bool) -> Split:
        """Return the batches of a set, without a scorer."""

    def identity(self, config: TrainConfig, train: Any) -> dict[str, Any]:
        """Return all that `build` needs to build the same model again."""

    def build(self, identity: Mapping[str, Any]) -> nn.Module:
        """Return a new model as `identity` describes it."""

    def make_forward(self, config: TrainConfig) -> Callable[[nn.Module, Any], Any]:
        """Return what calls a model on a batch."""

    def recipe(self, config: TrainConfig) -> Mapping[str, Any]:
        """Return how `posemill prepare` made the data; empty where it did not."""

    def decided(self, config: TrainConfig, train: Any) -> Mapping[str, tuple[Any, str]]:
        """Return what the user left open and the data decided, with the reason."""

    def notes(self, config: TrainConfig, sets: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a user should know of the clips before the training begins."""

    def features(self, config: TrainConfig, clips: Any, indices: IntArray) -> FloatArray:
        """Return `(N, F)`: cheap numbers of some clips, alike for clips that look alike."""

    def new_clips(
        self, config: TrainConfig, identity: Mapping[str, Any], clips: Any
    ) -> Iterator[NewClip]:
        """Yield each clip that a trained model is to look at."""


def find_kind(name: str) -> Kind:
    """Return a kind of data by name."""
    module, _, kind = _KINDS[name].partition(":")
    found: Kind = getattr(import_module(module), kind)()
    return found


def kind_of_identity(identity: Mapping[str, Any]) -> Kind:
    """Return the kind of data that a model of this identity takes."""
    return find_kind(str(identity.get("kind", "keypoints")))
