"""Which frames of a clip are read: one set of formulas for every data set and for extraction.

A way to sample is named by a text, as settings and flags have it:

    segments:8      8 equal parts, one frame of each (TSN): at random, or the middle one
    segments:8x5    the same with 5 frames that follow each other in each part: 40 frames
    dense:8         8 frames at equal steps in a window of 64: at a random place, or in the middle
    dense:32/64     32 frames in a window of 64 (SlowFast's 32 with a stride of 2)
    uniform:16      16 frames at equal steps over the whole clip, the first and the last among them
    stride:2        every second frame
    fps:12.5        12.5 frames of each second
    all             every frame

The first three and `uniform` give the same number of frames for every clip, also for one of a
single frame, which is then repeated.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from posemill.records import IntArray

KINDS = ("segments", "dense", "uniform", "stride", "fps", "all")
_WINDOW = 64
_FORM = re.compile(r"(segments|dense|uniform|stride):([0-9]{1,9})(?:x([0-9]{1,9})|/([0-9]{1,9}))?")
# A time less than this before a frame's counts as on it: times are fractions, rates decimals.
_SLACK_SECONDS = 1e-6


@dataclass(frozen=True)
class Sampling:
    """A way to choose frames; see the texts above and `parse`.

    Args:
        kind: One of `KINDS`.
        count: Segments, frames of `dense` and `uniform`, or the stride; 0 for `fps` and `all`.
        length: Frames that follow each other in each segment.
        window: Frames that `dense` looks at.
        fps: Frames of a second, for `fps`.
    """

    kind: str
    count: int = 0
    length: int = 1
    window: int = _WINDOW
    fps: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"sampling: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.kind in ("segments", "dense", "uniform", "stride") and self.count < 1:
            raise ValueError(f"sampling {self.kind}: expected 1 or more, got {self.count}")
        if self.length < 1 or self.window < self.count * (self.kind == "dense"):
            raise ValueError(
                f"sampling {self}: expected 1 or more frames of a segment, and a window of no "
                "fewer frames than are taken from it"
            )
        if self.kind == "fps" and not 0 < self.fps < math.inf:
            raise ValueError(f"sampling fps: expected more than 0, got {self.fps}")

    @classmethod
    def parse(cls, text: str | Sampling) -> Sampling:
        """Return the sampling that a text names; anything else is a `ValueError`."""
        if isinstance(text, Sampling):
            return text
        words = str(text).strip().lower()
        if words == "all":
            return cls("all")
        if words.startswith("fps:"):
            try:
                return cls("fps", fps=float(words[4:]))
            except ValueError:
                pass
        form = _FORM.fullmatch(words)
        kind = form[1] if form else ""
        if form is None or (form[3] and kind != "segments") or (form[4] and kind != "dense"):
            raise ValueError(
                f"sampling: expected segments:8, dense:32/64, uniform:16, stride:2, fps:12.5 or "
                f"all, got {str(text)!r}"
            )
        count = int(form[2])
        window = int(form[4]) if form[4] else max(_WINDOW, count)
        return cls(kind, count, int(form[3] or 1), window if kind == "dense" else _WINDOW)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.kind in ("all", "fps"):
            return self.kind if self.kind == "all" else f"fps:{self.fps:g}"
        of_segment = f"x{self.length}" if self.length > 1 else ""
        of_window = f"/{self.window}" if self.kind == "dense" else ""
        return f"{self.kind}:{self.count}{of_segment}{of_window}"

    @property
    def num_frames(self) -> int | None:
        """How many frames every clip gives; None where that follows from the clip."""
        return None if self.kind in ("stride", "fps", "all") else self.count * self.length

    def rate_of(self, fps: float | None) -> float | None:
        """Return how many of the frames that `stride` and `fps` take make a second.

        Args:
            fps: Of the clip; None where it does not say.
        """
        if self.kind == "fps":
            return min(self.fps, fps or self.fps)
        return fps and fps / (self.count or 1)

    def indices(
        self,
        num_frames: int,
        *,
        rng: np.random.Generator | None = None,
        fps: float | None = None,
        seconds: npt.NDArray[np.float64] | None = None,
    ) -> IntArray:
        """Return the numbers of the frames to read, in the order they are shown; may repeat.

        Args:
            num_frames: Of the clip, 1 or more.
            rng: For training: draws the places. None takes the middle ones, always the same.
            fps: Of the clip; for `fps` where `seconds` is not given.
            seconds: `(num_frames,)`: when each frame is shown, for `fps` of a clip whose frames do
                not come at equal distances.
        """
        if num_frames < 1:
            raise ValueError(f"sampling: expected a clip of 1 frame or more, got {num_frames}")
        if self.kind == "segments":
            starts = segment_starts(num_frames, self.count, length=self.length, rng=rng)
            frames = starts[:, None] + np.arange(self.length)
            flat: IntArray = np.minimum(frames.reshape(-1), num_frames - 1)
            return flat
        if self.kind == "dense":
            return dense_indices(num_frames, self.count, window=self.window, rng=rng)
        if self.kind == "uniform":
            return np.rint(np.linspace(0, num_frames - 1, self.count)).astype(np.int64)
        if self.kind == "fps":
            return fps_indices(num_frames, self.fps, fps=fps, seconds=seconds)
        return np.arange(0, num_frames, self.count or 1)


def fewer_frames(fps: float | None, stride: int) -> Sampling | None:
    """Return what the settings `fps` and `stride` of a job ask for; None for all frames."""
    if fps is not None:
        return Sampling("fps", fps=fps)
    return Sampling("stride", stride) if stride > 1 else None


def segment_starts(
    num_frames: int, num_segments: int, *, length: int = 1, rng: np.random.Generator | None = None
) -> IntArray:
    """Return `(num_segments,)` the first frame of each segment, as TSN has it.

    Args:
        num_frames: Of the clip.
        num_segments: Equal parts.
        length: Frames that are read from each start on.
        rng: For training, at random within each part; None takes the middles.
    """
    places, order = num_frames - length + 1, np.arange(num_segments)
    if places < 1:  # shorter than one segment's frames: all begin at its first
        return np.zeros(num_segments, np.int64)
    if rng is None:
        tick = places / num_segments
        return (tick / 2 + tick * order).astype(np.int64)
    of_part = places // num_segments
    if of_part > 0:
        return order * of_part + rng.integers(of_part, size=num_segments)
    if num_frames > max(num_segments, length):
        return np.sort(rng.integers(places, size=num_segments))
    return np.rint(order * places / num_segments).astype(np.int64)


def dense_indices(
    num_frames: int, count: int, *, window: int = _WINDOW, rng: np.random.Generator | None = None
) -> IntArray:
    """Return `(count,)` frames at equal steps in a window; a shorter clip begins again.

    Args:
        num_frames: Of the clip.
        count: Frames to take.
        window: Frames that they are spread over.
        rng: For training, the window at a random place; None takes the middle.
    """
    places = max(1, num_frames - window + 1)
    start = places // 2 if rng is None else int(rng.integers(places))
    return (start + np.arange(count) * (window // count)) % num_frames


def fps_indices(
    num_frames: int,
    wanted: float,
    *,
    fps: float | None = None,
    seconds: npt.NDArray[np.float64] | None = None,
) -> IntArray:
    """Return the frames that are on show at every 1 / `wanted` of a second, none twice.

    A clip with fewer frames a second than wanted gives all it has: nothing is made up.

    Args:
        num_frames: Of the clip.
        wanted: Frames of a second to take.
        fps: Of the clip.
        seconds: `(num_frames,)` when each is shown, in place of `fps`; rising.
    """
    if seconds is None:
        if fps is None or not 0 < fps < math.inf:
            raise ValueError(
                f"sampling fps:{wanted:g}: the clip does not say how many frames a second it has; "
                "use stride:N or segments:N"
            )
        seconds = np.arange(num_frames) / fps
    elif len(seconds) != num_frames:
        raise ValueError(
            f"sampling fps:{wanted:g}: expected {num_frames} times, got {len(seconds)}"
        )
    starts = np.asarray(seconds, np.float64) - seconds[0] - _SLACK_SECONDS
    # The last frame stays as long as the one before it.
    step = np.diff(starts[-2:], prepend=starts[-1] - 1 / wanted)[-1]
    ends = np.append(starts[1:], starts[-1] + step)
    # On show at a moment k / wanted is the frame whose [start, end) has it.
    return np.flatnonzero(np.ceil(starts * wanted) < ends * wanted)
