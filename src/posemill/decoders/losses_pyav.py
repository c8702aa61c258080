"""Frames that a damaged file loses in silence: FFmpeg finds its way back, and only logs that.

A demuxer that meets nonsense looks for the next place it understands. What lay between is gone
without an error; the log has a line, and the times of the frames have a gap, or end too early.
The first packets are read while a file is opened: what is logged then counts as well.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import av
import av.logging

from posemill.messages import Message

# How many frames may come between a line of the log and the gap: decoders hold some back.
_SUSPICIOUS_FRAMES = 64
# How many frames FFmpeg may have read when a file is open: some seconds of it.
_FRAMES_AT_OPENING = 512
# Times are rounded, and soft telecine shows a frame for half of another's time.
_GAP = 1.75
# Containers whose frames follow each other at one rate, so that a gap alone tells of a loss.
_STEADY_CONTAINERS = frozenset(["mpeg", "mpegts"])
_TELLING_CONTAINERS = frozenset(["matroska", "asf", "flv"])
# Of these the end counts from 0 on, whenever the first frame is shown.
_ENDS_FROM_ZERO = frozenset(["matroska", "flv"])
_STEADY_CODECS = frozenset(["mpeg1video", "mpeg2video"])
# A jump in time as long is a cut between two recordings.
_CUT_SECONDS = 2.0

Log = tuple[int, str, str]  # level, who said it, what


class DamageError(Exception):
    """The stream cannot be read any further; all frames before have been given out."""


class _LoudLog:
    """FFmpeg's log, which the whole process has in common, loud as long as any thread listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_inside = 0
        self._before: tuple[int | None, bool] = (None, True)

    def __enter__(self) -> None:
        with self._lock:
            if not self._num_inside:
                self._before = av.logging.get_level(), av.logging.get_skip_repeated()
                av.logging.set_level(av.logging.INFO)
                # Else PyAV keeps back a line that is like the last one: the second reading of a
                # damaged file would be taken for whole.
                av.logging.set_skip_repeated(False)
            self._num_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._num_inside -= 1
            if not self._num_inside:
                av.logging.set_level(self._before[0])
                av.logging.set_skip_repeated(self._before[1])


_LOUD = _LoudLog()


@contextmanager
def listening() -> Iterator[list[Log]]:
    """Take what FFmpeg logs about damage inside the block, in this thread, and print nothing.

    The list is filled at the end of the block; until then it holds lines of all levels.
    """
    with _LOUD, av.logging.Capture(local=True) as logs:
        yield logs
    logs[:] = filter(_is_about_damage, logs)


def _is_about_damage(log: Log) -> bool:
    level, name, _ = log
    # ASF says only in passing that it threw away a part of a frame.
    return level <= (av.logging.INFO if name == "asf" else av.logging.ERROR)


class LossWatch:
    """Follows one pass over a stream and says where frames are missing.

    Args:
        container: Open, for its duration and format.
        stream: Its video stream.
        heard_at_opening: What was logged when the container was opened, where the pass begins with
            its first frame.
    """

    def __init__(self, container: Any, stream: Any, heard_at_opening: Sequence[Log] = ()) -> None:
        self._stream = stream
        self._seconds = float(stream.time_base or 0)
        rate = stream.average_rate or stream.guessed_rate
        # Between two frames, in units of the stream: exact, so that a steady rate is seen as one.
        is_known = rate and self._seconds
        self._usual = 1 / float(rate) / self._seconds if is_known else 0.0
        self._deltas: deque[int] = deque(maxlen=8)
        self._last: int | None = None
        self._end = _end_seconds(container)
        names = container.format.name.split(",")
        codec = stream.codec_context.name
        self._is_steady = codec in _STEADY_CODECS and not _STEADY_CONTAINERS.isdisjoint(names)
        # Only AVI counts its frames, empty ones among them, in a number that recorders get right.
        self._promised = int(stream.frames) if "avi" in names else 0
        # Matroska says when its longest stream ends, from 0 on, and ASF how long it lasts: a word
        # about the video where there is no sound. A damaged head may name the video twice.
        is_silent = all(each.type == "video" for each in container.streams)
        self._says_end = is_silent and not _TELLING_CONTAINERS.isdisjoint(names)
        counts_from_zero = is_silent and not _ENDS_FROM_ZERO.isdisjoint(names)
        if counts_from_zero and container.duration is not None:
            self._end = container.duration / av.time_base
        # Where each picture stands alone, what the decoder logs is about this very picture.
        self._stands_alone = codec == "gif"
        self._is_raw_mjpeg = "mjpeg" in names
        self._num_packets = 0
        self._num_frames = 0
        self._num_missing = 0
        self._said = ""
        self._suspicious = 0
        self.hear(heard_at_opening)
        if heard_at_opening:
            self._suspicious = _FRAMES_AT_OPENING

    @contextmanager
    def listen(self) -> Iterator[list[Log]]:
        """Take what FFmpeg logs inside the block, of this thread, and print nothing.

        What is left in the list at the end of the block is heard.
        """
        with listening() as logs:
            yield logs
        self.hear(logs)

    def hear(self, logs: Sequence[Log]) -> None:
        """Look with suspicion at the frames that follow these lines of the log."""
        for _, name, message in filter(_is_about_damage, logs):
            self._said, self._suspicious = f"{name}: {message.strip()}", _SUSPICIOUS_FRAMES

    @property
    def has_heard(self) -> bool:
        """Whether FFmpeg logged an error so far."""
        return bool(self._said)

    def take_packet(self) -> None:
        """Count a packet that was read."""
        self._num_packets += 1

    def check(self, frame: Any) -> None:
        """Raise `DamageError` where the frame is marked as damaged or others are missing before it.

        Args:
            frame: The one that is shown next.
        """
        if frame.is_corrupt:
            raise DamageError(Message("the decoder marks the picture as corrupt"))
        if self._stands_alone and self._said:
            raise DamageError(Message("the picture is broken ({said})", said=self._said))
        self._num_frames += 1
        if frame.pts is None or not self._seconds:
            return
        delta = 0 if self._last is None else frame.pts - self._last
        self._last = frame.pts
        if delta > _GAP * self._usual > 0:
            missing = round(delta / self._usual) - 1
            if self._suspicious:
                about = Message("{num_frames:frame is|frames are}", num_frames=missing)
                raise DamageError(
                    Message("about {about} missing here ({said})", about=about, said=self._said)
                )
            if self._is_steady and delta * self._seconds < _CUT_SECONDS:
                self._num_missing += missing
        if delta > 0:
            is_same = len(self._deltas) == self._deltas.maxlen and self._deltas[0] == delta
            self._deltas.append(delta)
            if not is_same:  # what comes in is what goes out
                self._usual = statistics.median(self._deltas)
        self._suspicious = max(0, self._suspicious - 1)

    def finish(self) -> None:
        """Raise `DamageError` where a stream that ended without an error is not whole."""
        if loss := self._loss_at_end():
            raise DamageError(loss)

    def _loss_at_end(self) -> str:
        if self._last is not None and self._end is not None:
            usual = self._usual
            left = self._end / self._seconds - self._last
            # At an uneven rate the last frame may be meant to stay.
            is_even = all(abs(each - usual) < 0.1 * usual for each in self._deltas)
            is_short = usual > 0 and left > (1 + _GAP) * usual
            if is_short and (self._suspicious or (self._says_end and is_even)):
                missing = round(left / usual) - 1
                about = Message("{num_frames:frame is|frames are}", num_frames=missing)
                why: str = Message("the file says it lasts {end:g} s", end=self._end)
                if self._suspicious:
                    why = self._said
                return Message("about {about} missing here ({why})", about=about, why=why)
        if self._suspicious and self._end is None:
            return Message("the stream ends after a fault ({said})", said=self._said)
        if self._said and self._is_raw_mjpeg:
            return Message("a picture before is broken ({said})", said=self._said)
        if self._said and self._num_frames < self._num_packets:
            missing = self._num_packets - self._num_frames
            return Message(
                "{missing} of {num_packets} frames did not come ({said})",
                missing=missing,
                num_packets=self._num_packets,
                said=self._said,
            )
        if self._num_missing:
            return Message(
                "{num_frames:frame is|frames are} missing by the times of the others",
                num_frames=self._num_missing,
            )
        if self._promised > self._num_packets > 0:
            return Message(
                "the file says it has {promised} frames, {num_packets} are there",
                promised=self._promised,
                num_packets=self._num_packets,
            )
        return ""


def _end_seconds(container: Any) -> float | None:
    """Return when the container says its last frame ends, on the clock of its frames."""
    if container.duration is None:
        return None
    return float((container.start_time or 0) + container.duration) / av.time_base
