"""What models of any kind of data share: sizes, output, masked pooling over time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import groups_of


@dataclass(frozen=True)
class ModelShape:
    """Sizes of input and output, as the data and the task have them; 0 where data have none."""

    num_points: int = 0  # keypoints of a frame
    num_dims: int = 0  # numbers of a keypoint
    num_classes: int = 0  # classes, or glosses with blank and unknown
    task: str = "classify"  # or `ctc`
    skeleton_name: str | None = None  # one of ours
    # Of every video; 0 where clips differ and are padded. Training may show fewer of them, all
    # clips of a batch alike.
    num_frames: int = 0

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """First point of each part and the one after its last; one part where none are known."""
        if not self.skeleton_name:
            return [(0, self.num_points)]
        return [(group.start, group.stop) for group in groups_of(self.skeleton_name)]

    @property
    def hands(self) -> tuple[int, ...]:
        """Which parts are the left and the right hand; empty where there are not both."""
        parts = get_skeleton(self.skeleton_name).parts if self.skeleton_name else ()
        sizes = {part.name: (index, len(part)) for index, part in enumerate(parts)}
        left, right = sizes.get("left_hand"), sizes.get("right_hand")
        return (left[0], right[0]) if left and right and left[1] == right[1] else ()


@dataclass
class CtcOutput:
    """Scores of glosses over time."""

    logits: Tensor  # `(B, T', C)`, class 0 is blank
    lengths: Tensor  # `(B,)`: how many of the T' steps are of the clip
    conv_logits: Tensor | None = None  # of an auxiliary head before the recurrent part


ModelOutput = Tensor | CtcOutput


class ClipHead(nn.Linear):
    """The last layer of models that have a vector for each step of time.

    It gives logits of the clip, from mean and maximum over its steps, or for ctc of each step.
    """

    __call__: Callable[..., ModelOutput]

    def __init__(self, shape: ModelShape, width: int, dropout: float) -> None:
        is_ctc = shape.task == "ctc"
        super().__init__(width if is_ctc else 2 * width, shape.num_classes)
        self.is_ctc, self.dropout = is_ctc, nn.Dropout(dropout)

    def forward(self, steps: Tensor, lengths: Tensor) -> ModelOutput:  # type: ignore[override]
        """Return the answer for `steps (B, T, width)`, of which `lengths (B,)` are the clip's."""
        if self.is_ctc:
            return CtcOutput(super().forward(self.dropout(steps)), lengths)
        return super().forward(self.dropout(pool_time(steps, lengths)))


class Model(nn.Module):
    """Base of all models: logits `(B, C)` out for classify, a `CtcOutput` for ctc."""

    takes: ClassVar[str]  # the kind of data
    stride_option: ClassVar[str] = ""  # which says by how much time is shortened, once or in turn
    # Sizes of the frames in evaluations, as shares of their own, of models of video.
    eval_scales: tuple[float, ...] = ()

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape

    @classmethod
    def stride_of(cls, **options: Any) -> int:
        """Return the frames per output step under these options."""
        if not cls.stride_option:
            return 1
        usual = inspect.signature(cls).parameters[cls.stride_option].default
        return int(np.prod(options.get(cls.stride_option, usual)))

    def load_pretrained(self) -> None:
        """Copy the weights that parts of the model begin with, where the options name some."""


def steps_mask(lengths: Tensor, steps: int) -> Tensor:
    """Return `(B, steps)`: True inside each clip."""
    return torch.arange(steps, device=lengths.device)[None] < lengths[:, None]


def shorten(lengths: Tensor, stride: int) -> Tensor:
    """Return the steps left of so many; a last incomplete one counts."""
    return torch.div(lengths + stride - 1, stride, rounding_mode="floor")


def mean_time(features: Tensor, lengths: Tensor) -> Tensor:
    """Return `(B, C)`: the mean over the steps of each clip of `(B, T, C)`."""
    inside = steps_mask(lengths, features.shape[1])[..., None]
    return (features * inside).sum(1) / lengths[:, None].to(features.dtype)


def pool_time(features: Tensor, lengths: Tensor) -> Tensor:
    """Return `(B, 2 C)`: mean and maximum over the steps of each clip of `(B, T, C)`."""
    outside = ~steps_mask(lengths, features.shape[1])[..., None]
    most = features.masked_fill(outside, torch.finfo(features.dtype).min).amax(1)
    return torch.cat([mean_time(features, lengths), most], -1)


def run_recurrent(network: nn.Module, features: Tensor, lengths: Tensor) -> Tensor:
    """Return `(B, T, C')` of `(B, T, C)`: what a recurrent net says inside of each clip."""
    packed = pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
    steps, _ = pad_packed_sequence(
        network(packed)[0], batch_first=True, total_length=features.shape[1]
    )
    return steps
