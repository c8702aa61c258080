"""The networks that look at single frames: `thin`, `resnet18`, `resnet50`, `lite0`.

The names of the weights of residual networks are those that torchvision's files have. EfficientNet-
lite0 was made for phones: ReLU6 instead of swish, no squeeze and excitation; its ImageNet weights
are in a published package, and padding and batch norm are those of TensorFlow, which trained it.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posemill import plugins
from posemill.errors import ConfigError, WeightsError
from posemill.training.models.video import Backbone, ClipTimes, FrameBlock
from posemill.training.video.transform import IMAGENET_MEAN, IMAGENET_STD
from posemill.weights.pull import ensure_model


class ResidualBlock(FrameBlock):
    """Convolutions with a way around them; the first of them sees what the shift makes of frames.

    Two of 3 x 3; of a bottleneck one of 3 x 3 between two of 1 x 1, the last four times as wide.
    """

    def __init__(self, num_inputs: int, width: int, stride: int, *, is_bottleneck: bool) -> None:
        super().__init__()
        self.num_outputs = width * (4 if is_bottleneck else 1)
        kernel, strides = (1, (1, stride)) if is_bottleneck else (3, (stride, 1))
        self.conv1 = nn.Conv2d(num_inputs, width, kernel, strides[0], kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, strides[1], 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = self.bn3 = self.downsample = None
        if is_bottleneck:
            self.conv3 = nn.Conv2d(width, self.num_outputs, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(self.num_outputs)
        if stride != 1 or num_inputs != self.num_outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(num_inputs, self.num_outputs, 1, stride, bias=False),
                nn.BatchNorm2d(self.num_outputs),
            )

    def forward(self, features: Tensor, times: ClipTimes) -> Tensor:
        """Return `(B T, C', H', W')` of `(B T, C, H, W)`."""
        branch = self.shift(features, times) if self.shift else features
        around = self.downsample(features) if self.downsample else features
        branch = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(branch)))))
        if self.conv3 is not None and self.bn3 is not None:
            branch = self.bn3(self.conv3(F.relu(branch)))
        return F.relu(branch + around)


class ResidualNetwork(Backbone):
    """Four stages of residual blocks, each half as large and twice as wide as the one before."""

    def __init__(
        self, widths: Sequence[int], depths: Sequence[int], stem_kernel: int, *, is_wide: bool
    ) -> None:
        super().__init__()
        num_inputs = widths[0]
        self.conv1 = nn.Conv2d(3, num_inputs, stem_kernel, 2, stem_kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(num_inputs)
        self.stages = [[] for _ in widths]
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            for place in range(depth):
                stride = 2 if number and not place else 1
                block = ResidualBlock(num_inputs, width, stride, is_bottleneck=is_wide)
                self.stages[number].append(block)
                num_inputs = block.num_outputs
            self.add_module(f"layer{number + 1}", nn.ModuleList(self.stages[number]))
        self.num_features = num_inputs
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, frames: Tensor, times: ClipTimes) -> Tensor:
        """Return `(B T, num_features)` of frames `(B T, 3, H, W)`."""
        # The largest of the positive parts is the positive part of the largest: the same numbers
        # from a quarter of the work.
        features = F.relu(F.max_pool2d(self.bn1(self.conv1(frames)), 3, 2, 1))
        for stage in self.stages:
            for block in stage:
                features = block(features, times)
        return self.pool(features)


_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _NUM_FEATURES = 32, 1280


class LiteNetwork(Backbone):
    """Seven stages of inverted residual blocks; 1280 features of a frame."""

    def __init__(self) -> None:
        super().__init__()
        self.num_features = _NUM_FEATURES
        self.conv_stem = _SameConv(3, _STEM, 3, stride=2, bias=False)
        self.bn0 = _norm(_STEM)
        self.blocks = nn.ModuleList()
        self.stages = [[] for _ in _STAGES]
        channels = _STEM
        for number, (depth, kernel, stride, ratio, width) in enumerate(_STAGES):
            for place in range(depth):
                first = stride if not place else 1
                block = InvertedBlock(channels, width, kernel=kernel, stride=first, ratio=ratio)
                self.blocks.append(block)
                if block.has_way_around:  # others have no branch
                    self.stages[number].append(block)
                channels = width
        self.conv_head = nn.Conv2d(channels, _NUM_FEATURES, 1, bias=False)
        self.bn1 = _norm(_NUM_FEATURES)
        # It learned from (x - 127) / 128 of bytes; all our models get ImageNet's mean and spread.
        for name, values in (
            ("scale", [spread * 255 / 128 for spread in IMAGENET_STD]),
            ("offset", [(mean * 255 - 127) / 128 for mean in IMAGENET_MEAN]),
        ):
            self.register_buffer(name, torch.tensor(values).reshape(3, 1, 1), persistent=False)

    scale: Tensor
    offset: Tensor

    def forward(self, frames: Tensor, times: ClipTimes) -> Tensor:
        """Return `(B T, 1280)` of frames `(B T, 3, H, W)`."""
        features = F.relu6(self.bn0(self.conv_stem(frames * self.scale + self.offset)))
        for block in self.blocks:
            features = block(features, times)
        return self.pool(F.relu6(self.bn1(self.conv_head(features))))


class InvertedBlock(FrameBlock):
    """Wider by 1 x 1 (not where `ratio` is 1), each channel on its own, narrow again by 1 x 1."""

    def __init__(
        self, num_inputs: int, width: int, *, kernel: int, stride: int, ratio: int
    ) -> None:
        super().__init__()
        inside = num_inputs * ratio
        self.has_way_around = stride == 1 and num_inputs == width
        self.expand_conv = self.bn0 = None
        if ratio > 1:
            self.expand_conv = nn.Conv2d(num_inputs, inside, 1, bias=False)
            self.bn0 = _norm(inside)
        self.depthwise_conv = _SameConv(
            inside, inside, kernel, stride=stride, groups=inside, bias=False
        )
        self.bn1 = _norm(inside)
        self.project_conv = nn.Conv2d(inside, width, 1, bias=False)
        self.bn2 = _norm(width)

    def forward(self, features: Tensor, times: ClipTimes) -> Tensor:
        """Return `(B T, C', H', W')` of `(B T, C, H, W)`."""
        branch = self.shift(features, times) if self.shift else features
        if self.expand_conv is not None and self.bn0 is not None:
            branch = F.relu6(self.bn0(self.expand_conv(branch)))
        branch = F.relu6(self.bn1(self.depthwise_conv(branch)))
        branch = self.bn2(self.project_conv(branch))
        result: Tensor = branch + features if self.has_way_around else branch
        return result


class _SameConv(nn.Conv2d):
    """A convolution with TensorFlow's padding: an odd pixel of it comes right and below."""

    def forward(self, features: Tensor) -> Tensor:
        pads: list[int] = []
        for size, kernel, stride in zip(
            features.shape[:-3:-1], self.kernel_size, self.stride, strict=True
        ):  # width first
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(
                features, self.weight, None, self.stride, (pads[2], pads[0]), groups=self.groups
            )
        return super().forward(F.pad(features, pads))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


_RESIDUAL = {  # widths, depths, kernel of the stem, whether blocks are bottlenecks
    "thin": ((16, 32, 64, 128), (2, 2, 2, 2), 3, False),
    "resnet18": ((64, 128, 256, 512), (2, 2, 2, 2), 7, False),
    "resnet50": ((64, 128, 256, 512), (3, 4, 6, 3), 7, True),
}
BACKBONES = (*_RESIDUAL, "lite0")


def build_backbone(name: str, *, width: float = 1.0, depth: Sequence[int] = ()) -> Backbone:
    """Return a new network of frames with random weights; width and depth as in `stage_sizes`."""
    if name not in BACKBONES:
        raise plugins.unknown("backbone", name, BACKBONES)
    if name == "lite0":
        if width != 1 or depth:
            raise ConfigError("backbone lite0 has one width and depth: leave both options out")
        return LiteNetwork()
    usual_widths, usual_depths, stem_kernel, is_wide = _RESIDUAL[name]
    sizes = stage_sizes(usual_widths, usual_depths, width, depth)
    return ResidualNetwork(*sizes, stem_kernel, is_wide=is_wide)


def stage_sizes(
    widths: Sequence[int], depths: Sequence[int], width: float, depth: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return channels and blocks of four stages: the usual ones times `width`, with `depth` blocks.

    An empty `depth` leaves the usual ones.
    """
    if width <= 0:
        raise ConfigError("width: expected above 0, got {width}", width=width)
    if depth and (len(depth) != 4 or min(depth) < 1):
        raise ConfigError("depth: expected blocks of four stages, got {depth}", depth=list(depth))
    # By eights, so that an eighth of them can move each way
    return [max(8, round(size * width / 8) * 8) for size in widths], list(depth or depths)


IMAGENET = "imagenet"
# Backbones whose weights posemill knows where to get, and their names in the catalogue.
PUBLISHED = {"lite0": "efficientnet_lite0"}
_LAST_LAYERS = ("fc.", "new_fc.", "classifier.", "head.")


def load_pretrained(backbone: Backbone, name: str, weights: str) -> None:
    """Copy weights into a backbone: `imagenet`, or the state dict in a file of `torch.save`."""
    path = Path(weights)
    if weights == IMAGENET:
        if name not in PUBLISHED:
            raise ConfigError(
                "weights: no package with ImageNet weights of {name} is known, only of "
                "{known}; give the path of a file, or none",
                name=name,
                known=", ".join(PUBLISHED),
            )
        path = ensure_model(PUBLISHED[name])
    given = {_our_key(key): value for key, value in _read(path).items()}
    wanted = backbone.state_dict()
    wrong = [
        key
        for key in {**wanted, **given}
        if not key.startswith(_LAST_LAYERS) and not key.endswith("num_batches_tracked")
        if key not in wanted or key not in given or wanted[key].shape != given[key].shape
    ]
    if wrong:
        raise WeightsError(
            "weights: {path} does not fit backbone {name}: {num_wrong:weight is|weights are} "
            "missing, of another shape or too many, the first {first!r}; give weights of the same "
            "backbone, width and depth",
            path=path,
            name=name,
            num_wrong=len(wrong),
            first=wrong[0],
        )
    backbone.load_state_dict({key: given[key] for key in wanted if key in given}, strict=False)


def _read(path: Path) -> Mapping[str, Tensor]:
    """Return the state dict in a file; nothing in it is run."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of how old its pickle is
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(
            "weights: {path} cannot be read: {reason}", path=path, reason=error.strerror
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
        found = None  # torch's own words advise to run what is in it
    for inner in ("state_dict", "model"):  # as many trainings save it
        if isinstance(found, dict) and isinstance(found.get(inner), dict):
            found = found[inner]
    if isinstance(found, dict) and all(isinstance(value, Tensor) for value in found.values()):
        return found
    raise WeightsError(
        "weights: {path} is no file of tensors alone: it is damaged, of another kind, or would run "
        "code when read; give a state dict that torch.save wrote",
        path=path,
    )


def _our_key(key: str) -> str:
    """Return a weight's name without what others put around it: `module._blocks.0._bn1.weight`."""
    key = key.removeprefix("module.").removeprefix("base_model.").removeprefix("backbone.")
    return ".".join(part.removeprefix("_") for part in key.split(".") if part != "net")
