"""The kinds of data a training learns from: what each has to say, and where it is said.

A new kind is one file and one row in `KINDS`; another package's is an entry point of the group
`posemill.kinds`, chosen by `--data-kind NAME`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from posemill import plugins
from posemill.errors import ConfigError
from posemill.training.config.kinds import KINDS
from posemill.training.data.batches import Batch
from posemill.training.data.clips import Clips, Picture
from posemill.training.models import build_model, time_stride_of

if TYPE_CHECKING:
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.data.labels import LabelledClip


class Kind(ABC):
    """One kind of data: how its clips are read, and the model for them.

    A kind of your own needs `load`, and `build` for a model that is not in our tables.
    """

    name: str

    @abstractmethod
    def load(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, Clips]:
        """Return the clips by split, everything checked that can be checked before training.

        Args:
            config: The settings.
            class_names: Those of a trained model; from the train split where None.
            splits: Only these; all where None.
        """

    def build(self, identity: Mapping[str, Any]) -> nn.Module:
        """Return a new model as `identity` describes it; called with the inputs of a batch."""
        known = {"kind", "model", "options"}
        sizes = {name: value for name, value in identity.items() if name not in known}
        model: nn.Module = build_model(identity["model"], **sizes, **identity["options"])
        return model

    def open(self, config: TrainConfig, clips: Any, *, is_training: bool) -> Clips:
        """Return clips that give batches; those of the training are augmented."""
        opened: Clips = clips
        return opened

    def identity(self, config: TrainConfig, train: Clips) -> dict[str, Any]:
        """Return all that `build` needs to build the same model again."""
        return {
            "kind": self.name,
            "model": config.model.name,
            "options": dict(config.model.options),
            "task": config.task,
            "num_classes": len(train.class_names),
            **train.shape,
        }

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip with its label, split and group, for `leave_out`."""
        raise ConfigError("{--leave-out}: {kind} data have no groups; leave it out", kind=self.name)

    def recipe(self, config: TrainConfig) -> Mapping[str, Any]:
        """Return how `posemill prepare` made the data; empty where it did not."""
        return {}

    def decided(self, config: TrainConfig, train: Any) -> Mapping[str, tuple[Any, str]]:
        """Return what the user left open and the data decided, with the reason."""
        return {}

    def notes(self, config: TrainConfig, sets: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a user should know of the clips before the training begins."""
        yield from ()

    def new_clips(
        self, config: TrainConfig, identity: Mapping[str, Any], clips: Any
    ) -> Iterator[tuple[Picture, Batch]]:
        """Yield each clip that a trained model is to look at: to be seen, and alone in a batch."""
        raise ConfigError(
            "{run} was trained on {kind}, which predict cannot read", run=config.out, kind=self.name
        )


def frames_per_step(config: TrainConfig) -> int:
    """Return the frames per output step of the model (ctc); 1 where there is one for a clip."""
    model = config.model
    return time_stride_of(model.name, **model.options) if config.task == "ctc" else 1


def find_kind(name: str) -> Kind:
    """Return a kind of data by name."""
    found: Kind = plugins.load("kind", KINDS, name, extra="train")()
    return found


def kind_of_identity(identity: Mapping[str, Any]) -> Kind:
    """Return the kind of data that a model of this identity takes."""
    return find_kind(str(identity.get("kind")))
