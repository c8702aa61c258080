"""How a training clip is augmented: drawn with the clip, done by `ClipTransform` on the device.

What is drawn are twelve numbers, the clip's view: the part of the picture that is seen (left, top,
width, height, as parts of 1), whether it is mirrored, the factors of brightness, contrast and
saturation, and the part that is erased (the same four, width 0 for none).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posemill.errors import TrainingError
from posemill.records import FloatArray

VIEW_SIZE = 12
CROP, MIRROR, COLOUR, ERASED = slice(0, 4), 4, slice(5, 8), slice(8, 12)
_SIDES = {"left": "right", "right": "left"}


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

    @staticmethod
    def is_mirrored(view: FloatArray) -> bool:
        """Return whether a view is mirrored."""
        return bool(view[MIRROR])

    def mirrored_classes(self, classes: Sequence[str]) -> list[int]:
        """Return the number that each class has when mirrored.

        Raises:
            TrainingError: `mirror_labels` names no class, or names say left and right and it is
                not given.
        """
        numbers = {name: number for number, name in enumerate(classes)}
        found = list(range(len(classes)))
        if self.mirror_labels is None and self.mirror:
            for name in classes:
                other = _other_side(name)
                if other != name and other in numbers:
                    raise TrainingError(
                        f"mirrored, {name!r} looks like {other!r}: give mirror_labels={{{name!r}: "
                        f"{other!r}}}, {{}} where it stays what it is, or mirror=0"
                    )
        for name, other in (self.mirror_labels or {}).items():
            if name not in numbers or other not in numbers:
                missing = name if name not in numbers else other
                raise TrainingError(f"mirror_labels: no class is called {missing!r}")
            found[numbers[name]], found[numbers[other]] = numbers[other], numbers[name]
        return found


def _other_side(name: str) -> str:
    for side, other in _SIDES.items():
        if side in name.lower():
            return name.lower().replace(side, other)
    return name


def _box(
    rng: np.random.Generator, area: tuple[float, float], ratio: tuple[float, float]
) -> FloatArray:
    """Return left, top, width and height of a part of the picture, as parts of 1."""
    size = rng.uniform(*area)
    shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
    width, height = min(1.0, math.sqrt(size * shape)), min(1.0, math.sqrt(size / shape))
    left, top = rng.random(2) * (1 - width, 1 - height)
    return np.array([left, top, width, height], np.float32)
