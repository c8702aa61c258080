"""What all solutions have in common: pictures in, results out, memory between them, `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators.declaration import EngineOption
from posemill.records import FloatArray, Frame

Results = TypeVar("Results")
_Solution = TypeVar("_Solution", bound="Solution[Any]")


class Solution(ABC, Generic[Results]):
    """A class of `mp.solutions`: made once, asked picture by picture, closed at the end.

    Args:
        engine: What finds things in pictures; it can be closed.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._is_closed = False
        self.reset()

    def process(self, image: Frame) -> Results:
        """Return what is in an RGB picture `(height, width, 3)` uint8.

        Raises:
            ValueError: No such picture, or `close` was called before.
            TypeError: The picture does not hold bytes.
        """
        if self._is_closed:
            raise ValueError(f"this {type(self).__name__} was closed; make a new one")
        return self._process(checked_picture(image))

    @abstractmethod
    def _process(self, image: Frame) -> Results:
        """Return what is in a picture that was checked."""

    def reset(self) -> None:
        """Forget all pictures seen so far; nothing to do after `close`."""

    def close(self) -> None:
        """Free the networks."""
        self._engine.close()
        self._is_closed = True

    def __enter__(self: _Solution) -> _Solution:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class InstanceSolution(Solution[Results], Generic[Results]):
    """A solution of several hands or faces.

    Args:
        engine: `HandsEstimator` or `FaceEstimator`.
        static_image_mode: Whether every picture stands alone.
    """

    def __init__(self, engine: Any, *, static_image_mode: bool) -> None:
        self._is_static = bool(static_image_mode)
        super().__init__(engine)

    def reset(self) -> None:
        """Forget all pictures seen so far; nothing to do after `close`."""
        self._states = None if self._is_static else [self._engine.new_state()]

    def _find(self, image: Frame) -> list[Any]:
        """Return the engine's hands or faces of a picture."""
        (found,) = self._engine.find([image], self._states)
        return list(found)


class MaskMemory:
    """Refuses masks of another size than the one before, where masks are smoothed over time.

    Stock's Python API loses the share of the mask before, so smoothing changes no value; but both
    must have the same size.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] | None = None

    def check(self, mask: FloatArray | None) -> None:
        """Remember the mask of a frame; raise where the frame before had one of another size."""
        shape = None if mask is None else mask.shape
        if shape and self._shape and shape != self._shape:
            raise RuntimeError(
                f"segmentation_mask: this picture is {shape[1]} x {shape[0]}, the one before was "
                f"{self._shape[1]} x {self._shape[0]}, and smooth_segmentation=True needs pictures "
                f"of one size; call reset() between videos, or use smooth_segmentation=False"
            )
        self._shape = shape


def checked_picture(image: Any) -> Frame:
    """Return a picture; raise if it is none, with a sentence that says what to do."""
    expected = "image: expected a picture (height, width, 3) uint8 RGB"
    if image is None:
        raise ValueError(
            f"{expected}, got None; cv2.imread returns None for a file it cannot read: check its "
            f"path"
        )
    if not isinstance(image, np.ndarray):
        raise ValueError(
            f"image: expected a numpy array (height, width, 3) uint8 RGB, got "
            f"{type(image).__name__}; read the picture first, for instance with cv2.imread"
        )
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(
            f"{expected}, got shape {image.shape}; cv2.cvtColor(image, cv2.COLOR_GRAY2RGB) or "
            f"image[..., :3] gives three channels"
        )
    if image.dtype != np.uint8:
        raise TypeError(
            f"{expected}, got {image.dtype}; (image * 255).astype(numpy.uint8) makes bytes of "
            f"numbers from 0 to 1"
        )
    if not image.size:
        raise ValueError(f"{expected}, got one without pixels: shape {image.shape}")
    return image


def check_confidence(name: str, value: Any) -> None:
    """Raise a `ConfigError` unless a threshold is a number from 0 to 1."""
    EngineOption(name, float, 0.5, "", least=0, most=1).check(value)


def check_choice(name: str, value: Any, choices: tuple[int, ...]) -> None:
    """Raise a `ConfigError` unless a number is one of those that have a meaning."""
    if value not in choices:
        raise ConfigError(
            "{name}: expected {choices}, got {value!r}",
            name=name,
            choices=" or ".join(map(str, choices)),
            value=value,
        )


def read_only(mask: FloatArray | None) -> FloatArray | None:
    """Return a mask that cannot be written to, as stock gives them."""
    if mask is not None:
        mask.flags.writeable = False
    return mask
