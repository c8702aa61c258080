"""Frames of a video by their numbers: from key frame to wanted frame, and nothing else decoded.

The wanted frames are taken group by group: go to the key frame before, decode up to the last one
wanted of that group, and take what waits in the decoder without reading on. In H.264 the frames
that no other refers to are skipped on the way (the decoder itself knows which), unless wanted.
Whatever does not go as the index says gives None, and the caller reads from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import av
import av.error
from av.video.frame import PictureType

from posemill.decoders.losses_pyav import DamageError, LossWatch
from posemill.decoders.packet_index import PacketIndex
from posemill.records import Frame

# Reading on and dropping as many packets costs no more than going to a place.
_NEAR_PACKETS = 4


class SparseDecoder:
    """Decodes single frames of an open file.

    Args:
        container: Of no use to others.
        stream: Its video stream.
        index: Of that file; must be sure.
    """

    def __init__(self, container: Any, stream: Any, index: PacketIndex) -> None:
        self.container = container
        self._stream = stream
        self._context = stream.codec_context
        self._index = index
        self._packets: Iterator[Any] = container.demux(stream)
        self._position: int | None = 0  # of the packet that would be read next
        self._can_skip = self._context.name == "h264"

    def read(
        self, numbers: Iterable[int], convert: Callable[[Any], Frame]
    ) -> dict[int, Frame] | None:
        """Return frames by their numbers, None where they might not be the true ones.

        Args:
            numbers: Ascending, each once.
            convert: Makes a decoded frame what is returned.
        """
        groups: dict[int, dict[int, int]] = {}
        for number in numbers:
            packet = int(self._index.stored_at[number])
            key = self._index.key_before(packet)
            if key is None:
                return None
            groups.setdefault(key, {})[packet] = number
        found: dict[int, Frame] = {}
        watch = LossWatch(self.container, self._stream)
        try:
            with watch.listen():
                for key, wanted in sorted(groups.items()):
                    if not self._read_group(key, wanted, found, convert):
                        return None
        except (av.error.FFmpegError, DamageError):
            return None
        finally:
            self._skip_unless(True)
        return None if watch.has_heard else found

    def _read_group(
        self,
        key: int,
        wanted: dict[int, int],
        found: dict[int, Frame],
        convert: Callable[[Any], Frame],
    ) -> bool:
        """Return whether the wanted packets of one group, from its key frame on, became frames."""
        pts, last = self._index.pts, max(wanted)
        missing = {int(pts[packet]): number for packet, number in wanted.items()}
        is_sure = not key  # from the very beginning on, frames are what they always are
        for position, packet in self._packets_from(key):
            if packet.pts != pts[position] or packet.is_corrupt:
                return False
            self._skip_unless(position in wanted or position == key)
            frames = packet.decode()
            if position == last:
                # Nothing more is needed of this group: what waits comes out now.
                frames += self._context.decode(None)
            for frame in frames:
                if frame.is_corrupt or frame.interlaced_frame:  # a packet may be half a frame
                    return False
                is_sure = is_sure or (frame.pts == pts[key] and _is_whole(frame))
                number = missing.pop(frame.pts, None)
                if number is not None:
                    found[number] = convert(frame)
            if position == last:
                return is_sure and not missing
        return False

    def _packets_from(self, key: int) -> Iterator[tuple[int, Any]]:
        """Yield the packets from a key frame on with their numbers; none where it is not found."""
        here = self._position
        if here is not None and here <= key <= here + _NEAR_PACKETS:
            self._context.flush_buffers()
            position = here
        else:
            self.container.seek(int(self._index.pts[key]), stream=self._stream, backward=True)
            self._packets = self.container.demux(self._stream)
            position = key
        self._position = None
        is_found = False
        for packet in self._packets:
            if not packet.size:
                return
            # Some containers list only a part of their key frames, and lead to an earlier one.
            is_found = is_found or packet.pts == self._index.pts[key]
            if is_found:
                position = max(position, key)
                self._position = position + 1
                yield position, packet
                position += 1

    def _skip_unless(self, is_wanted: bool) -> None:
        if self._can_skip:
            self._context.skip_frame = "DEFAULT" if is_wanted else "NONREF"


def _is_whole(landing: Any) -> bool:
    """Return whether the frame gone to needs no other; with intra refresh it does."""
    return bool(landing.key_frame and landing.pict_type == PictureType.I)
