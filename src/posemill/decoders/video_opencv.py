"""Video frames by OpenCV: forward only, as its seeks miss on variable frame rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import cv2
import numpy as np

from posemill.decoders.checked_reader import CheckedReader
from posemill.decoders.stream_pyav import turned
from posemill.messages import Message
from posemill.records import Frame


class OpencvReader(CheckedReader):
    """A `VideoReader` on OpenCV. Frames that are not asked for are decoded, but not converted."""

    name: ClassVar[str] = "opencv"

    def _start(self) -> None:
        if self.first_frame.is_interlaced:
            self._refuse(Message("it is interlaced, and OpenCV mixes up the fields"))
        capture = self._open_library()
        # It opens what it has no decoder for, AV1 in most of its builds.
        can_read = capture.grab()
        capture.release()
        if not can_read:
            self._refuse(Message("OpenCV opens it and reads nothing"))

    def _open_library(self) -> Any:
        capture = cv2.VideoCapture(
            self.path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, self._library_threads]
        )
        if not capture.isOpened():
            self._refuse(Message("OpenCV cannot open it"))
        # The tag knows four turns only; flips are ours in any case.
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        return capture

    def _read(self, numbers: list[int]) -> Iterator[Frame]:
        capture, number = self._open_library(), -1
        try:
            for wanted in numbers:
                while number < wanted:
                    number += 1
                    if not capture.grab():
                        self._damaged(number, Message("OpenCV ends here"))
                is_there, pixels = capture.retrieve()
                if not is_there:
                    self._damaged(number, Message("OpenCV gives no picture"))
                # Not cvtColor: it starts OpenCV's threads, and after a fork those are waited for.
                stored: Frame = np.empty_like(pixels)
                cv2.mixChannels([pixels], [stored], [0, 2, 1, 1, 2, 0])
                yield turned(stored, *self.first_frame.orientation)
        finally:
            capture.release()
