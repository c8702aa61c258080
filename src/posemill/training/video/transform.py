"""How clips of pixels are augmented: drawn with a clip, done by `ClipTransform` on the device.

What is drawn are twelve numbers, the clip's view: the part of the picture that is seen (left, top,
width, height, as parts of 1), whether it is mirrored, the factors of brightness, contrast and
saturation, and the part that is erased (the same four, width 0 for none).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posemill.errors import TrainingError
from posemill.records import FloatArray

VIEW_SIZE = 12
CROP, MIRROR, COLOUR, ERASED = slice(0, 4), 4, slice(5, 8), slice(8, 12)
_SIDES = (("left", "right"), ("right", "left"))


def plain_view() -> FloatArray:
    """Return the view of a clip that is seen as it is."""
    return np.array([0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0], np.float32)


@dataclass(frozen=True)
class ClipAugment:
    """What is drawn for each training clip, the same for all of its frames.

    Args:
        scale: Least and most part of the picture's area that is seen.
        ratio: Least and most width by height of that part, where 1 is the picture's own.
        mirror: How often a clip is mirrored.
        mirror_labels: Labels that change by that, either way: `{"left_swipe": "right_swipe"}`.
            Give `{}` where none does, though names have `left` or `right` in them.
        brightness: Most change of the factor: 0.2 draws 0.8 to 1.2.
        contrast: The same.
        saturation: The same.
        erase: How often a part of the picture is greyed out.
        erase_area: Least and most part of the area of that.
    """

    scale: tuple[float, float] = (0.5, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    mirror: float = 0.5
    mirror_labels: Mapping[str, str] | None = None
    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2
    erase: float = 0.0
    erase_area: tuple[float, float] = (0.02, 0.2)

    def __post_init__(self) -> None:
        for name in ("scale", "erase_area"):
            low, high = getattr(self, name)
            if not 0 < low <= high <= 1:
                raise ValueError(f"{name}: expected 0 < least <= most <= 1, got {low} and {high}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio: expected 0 < least <= most, got {self.ratio}")
        for name in ("mirror", "erase", "brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected 0 to 1, got {getattr(self, name)}")

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return the view of one clip, `(12,)` float32. Always as many draws."""
        view = plain_view()
        view[CROP] = _box(rng, self.scale, self.ratio)
        view[MIRROR] = rng.random() < self.mirror
        most = np.array([self.brightness, self.contrast, self.saturation])
        view[COLOUR] = 1 + most * rng.uniform(-1, 1, 3)
        erased = _box(rng, self.erase_area, (0.3, 1 / 0.3))
        if rng.random() < self.erase:
            view[ERASED] = erased
        return view

    def mirrored_classes(self, classes: Sequence[str]) -> list[int]:
        """Return the number that each class has when mirrored.

        It is a `TrainingError` where names say left and right and `mirror_labels` is not given, or
        where that names no class.
        """
        numbers = {name: number for number, name in enumerate(classes)}
        found = list(range(len(classes)))
        if self.mirror_labels is None and self.mirror:
            for name, (side, other_side) in product(classes, _SIDES):
                other = name.lower().replace(side, other_side)
                if side in name.lower() and other in numbers:
                    raise TrainingError(
                        "mirrored, {name!r} looks like {other!r}: give mirror_labels={{name!r}: "
                        "{other!r}}, {} where it stays what it is, or mirror=0",
                        name=name,
                        other=other,
                    )
        for name, other in (self.mirror_labels or {}).items():
            if name not in numbers or other not in numbers:
                missing = name if name not in numbers else other
                raise TrainingError(
                    "mirror_labels: no class is called {missing!r}", missing=missing
                )
            found[numbers[name]], found[numbers[other]] = numbers[other], numbers[name]
        return found


def _box(
    rng: np.random.Generator, area: tuple[float, float], ratio: tuple[float, float]
) -> FloatArray:
    """Return left, top, width and height of a part of the picture, as parts of 1."""
    size = rng.uniform(*area)
    shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
    width, height = min(1.0, math.sqrt(size * shape)), min(1.0, math.sqrt(size / shape))
    left, top = rng.random(2) * (1 - width, 1 - height)
    return np.array([left, top, width, height], np.float32)


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue look


class ClipTransform(nn.Module):
    """Makes of `(B, T, height, width, 3)` uint8 what a network takes; it has nothing to train.

    Each clip's `view` (see `ClipAugment`) is done to all of its frames alike: cut and brought to
    size in one pass, mirrored by the same, colours, a part greyed out; then normalised. Nothing is
    drawn here, so the result does not depend on the device's random state.

    Args:
        size: Height and width of the result; that of the frames by default.
        mean: Of red, green and blue, 0 to 1, which becomes 0.
        std: Of the same, which becomes 1.
        layout: `btchw` gives `(B, T, 3, height, width)`, for networks that look at frames;
            `bcthw` gives `(B, 3, T, height, width)`, for those with 3D kernels.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        mean: tuple[float, float, float] = IMAGENET_MEAN,
        std: tuple[float, float, float] = IMAGENET_STD,
        layout: str = "btchw",
    ) -> None:
        super().__init__()
        if layout not in ("btchw", "bcthw"):
            raise ValueError(f"layout: expected btchw or bcthw, got {layout!r}")
        if size is not None and size < 1:
            raise ValueError(f"size: expected 1 or more, got {size}")
        self.size, self.layout = size, layout
        for name, values in (("mean", mean), ("std", std), ("grey", _GREY)):
            given = torch.tensor(values, dtype=torch.float32).reshape(1, 1, 3, 1, 1)
            self.register_buffer(name, given, persistent=False)

    mean: Tensor
    std: Tensor
    grey: Tensor

    def forward(self, frames: Tensor, view: Tensor | None = None) -> Tensor:
        """Return the batch as floats.

        Args:
            frames: `(B, T, height, width, 3)` uint8.
            view: `(B, 12)` float32, or None for clips as they are.
        """
        if frames.dtype != torch.uint8 or frames.ndim != 5 or frames.shape[-1] != 3:
            raise ValueError(
                f"frames: expected (B, T, height, width, 3) uint8, got {tuple(frames.shape)} "
                f"{str(frames.dtype).removeprefix('torch.')}"
            )
        if view is not None and view.shape != (len(frames), VIEW_SIZE):
            raise ValueError(
                f"view: expected ({len(frames)}, {VIEW_SIZE}), got {tuple(view.shape)}"
            )
        # A network in half precision would round colours, and where a part begins.
        with torch.autocast(frames.device.type, enabled=False):
            # In one pass, in the order that all that follows reads: (B, T, 3, H, W), 0 to 255
            seen = frames.permute(0, 1, 4, 2, 3)
            clips = seen.to(torch.float32, memory_format=torch.contiguous_format)
            size = (self.size, self.size) if self.size else (clips.shape[3], clips.shape[4])
            clips = self._cut(clips, view, size)
            if view is None:
                clips = clips.sub_(self.mean * 255).div_(self.std * 255)
            else:
                clips = self._colour(clips, view[:, COLOUR]).mul_(_kept(view[:, ERASED], size))
        return clips.transpose(1, 2) if self.layout == "bcthw" else clips

    def _cut(self, clips: Tensor, view: Tensor | None, size: tuple[int, int]) -> Tensor:
        """Return the seen part of each clip in the size, mirrored where it is."""
        batch, length = clips.shape[:2]
        if view is None:
            if clips.shape[-2:] == size:
                return clips
            flat = functional.interpolate(
                clips.flatten(0, 1), size, mode="bilinear", align_corners=False, antialias=True
            )
            return flat.reshape(batch, length, 3, *size)
        left, top, width, height = view[:, CROP].unbind(1)
        side = 1 - 2 * view[:, MIRROR]
        nothing = torch.zeros_like(left)
        # Places of the result, -1 to 1, to those of the frame
        across = torch.stack([width * side, nothing, 2 * left + width - 1], 1)
        down = torch.stack([nothing, height, 2 * top + height - 1], 1)
        grid = functional.affine_grid(
            torch.stack([across, down], 1), [batch, 1, *size], align_corners=False
        )
        # The frames of a clip are the channels of one picture: one grid serves all of them.
        flat = functional.grid_sample(
            clips.flatten(1, 2), grid, padding_mode="border", align_corners=False
        )
        return flat.reshape(batch, length, 3, *size)

    def _colour(self, clips: Tensor, factors: Tensor) -> Tensor:
        """Return normalised clips with their brightness, contrast and saturation changed."""
        brightness, contrast, saturation = factors.reshape(-1, 3, 1, 1).unbind(1)  # (B, 1, 1)
        grey, mean, std = (values.reshape(1, 3, 1) for values in (self.grey, self.mean, self.std))
        # Saturation moves colours away from the grey of their pixel, contrast from that of the
        # clip: together, with normalising, one matrix for the colours of a pixel.
        own = torch.eye(3, device=clips.device)
        mixed = saturation * own + (1 - saturation) * grey.mT  # (B, 3, 3)
        middle = brightness * (clips.mean((1, 3, 4))[..., None] * grey).sum(1, keepdim=True)
        matrix = contrast * brightness * mixed / (255 * std)
        offset = ((1 - contrast) * middle / 255 - mean) / std  # (B, 3, 1)
        length = clips.shape[1]
        pixels = torch.baddbmm(
            offset.repeat_interleave(length, 0),
            matrix.repeat_interleave(length, 0),
            clips.flatten(3).flatten(0, 1),  # (B T, 3, H W)
        )
        # As far as black and white, which normalising has moved
        return pixels.clamp_(-mean / std, (1 - mean) / std).reshape(clips.shape)


def _kept(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Return `(B, 1, 1, height, width)`: 0 in the box of each clip, 1 elsewhere."""
    left, top, width, height = boxes.reshape(-1, 4, 1, 1).unbind(1)
    y = (torch.arange(size[0], device=boxes.device) + 0.5).reshape(1, -1, 1) / size[0]
    x = (torch.arange(size[1], device=boxes.device) + 0.5).reshape(1, 1, -1) / size[1]
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    return (~inside)[:, None, None].to(torch.float32)
