"""Where the frames of a video file lie: read once from its packets, without decoding, and kept.

What is kept counts for the very file it was made of (its size, its time of change and its place on
the disk), is checked by a sum, and is made again wherever it does not fit.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posemill.files import cache_folder

# Of a packet: one can begin here; it becomes a frame; one can begin, but others may be needed; the
# demuxer marks it as damaged.
IS_KEY, IS_SHOWN, IS_OPEN, IS_CORRUPT = 1, 2, 4, 8
# So many frames at most wait for others in H.264 and HEVC.
_MOST_DELAY = 16
_NO_TIME = np.iinfo(np.int64).min
# What the file begins with: format, size, time of change, inode, device, packets, frames, is_sure.
_HEAD = struct.Struct("<8sqqqqqq?")
_FORMAT = b"pmindex2"
_MOST_IN_MEMORY = 256

Identity = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class PacketIndex:
    """The packets of a video stream in the order they are stored, and the times of its frames.

    Args:
        pts: `(packets,)` int64, when each is shown, in the stream's units.
        flags: `(packets,)` uint8 of `IS_KEY`, `IS_SHOWN`, and `IS_OPEN` of some key frames.
        seconds: `(frames,)` float64 since the start of the file, ascending.
        is_sure: Whether frame n is the packet with the n-th time, so that one can go there.
    """

    pts: NDArray[np.int64]
    flags: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    is_sure: bool

    @cached_property
    def stored_at(self) -> NDArray[np.int64]:
        """`(frames,)`: the number of each frame's packet in the order they are stored."""
        shown = np.flatnonzero(self.flags & IS_SHOWN)
        return shown[np.argsort(self.pts[shown], kind="stable")]

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The numbers of the packets that begin anew; the first may be what it wants."""
        keys: NDArray[np.int64] = np.flatnonzero(self.flags & IS_KEY)
        begins: NDArray[np.int64] = keys[(self.flags[keys] & IS_OPEN == 0) | (keys == keys[:1])]
        return begins

    @property
    def has_hidden(self) -> bool:
        """Whether packets are decoded and not shown, as an edit list asks."""
        return bool((self.flags & IS_SHOWN == 0).any())

    @property
    def has_corrupt(self) -> bool:
        """Whether the demuxer marks packets as damaged."""
        return bool((self.flags & IS_CORRUPT).any())

    @property
    def has_open_keys(self) -> bool:
        """Whether some key frames are none of H.264's own (open GOP, intra refresh)."""
        return bool((self.flags & IS_OPEN).any())

    @property
    def has_leading(self) -> bool:
        """Whether frames are stored after a later key frame that is shown after them."""
        newest_key = np.maximum.accumulate(np.where(self.flags & IS_KEY, self.pts, _NO_TIME))
        return bool((self.pts < newest_key).any())

    def key_before(self, packet: int) -> int | None:
        """Return the last key frame's packet from which this one can be decoded; None if none is.

        A frame stored after a key frame and shown before it may need what came before both.
        """
        candidates = self.keys[: np.searchsorted(self.keys, packet, side="right")]
        earlier = candidates[self.pts[candidates] <= self.pts[packet]]
        return int(earlier[-1]) if earlier.size else None

    def to_bytes(self, identity: Identity) -> bytes:
        """Return all of it, with what tells the file it belongs to."""
        numbers = (len(self.pts), len(self.seconds), self.is_sure)
        body = _HEAD.pack(_FORMAT, *identity, *numbers)
        body += self.pts.tobytes() + self.flags.tobytes() + self.seconds.tobytes()
        return body + struct.pack("<I", zlib.crc32(body))


def from_bytes(data: bytes, identity: Identity) -> PacketIndex | None:
    """Return what `to_bytes` wrote, None where it is damaged or belongs to another file."""
    if len(data) < _HEAD.size + 4:
        return None
    form, *told, num_packets, num_frames, is_sure = _HEAD.unpack_from(data)
    if form != _FORMAT or tuple(told) != identity:
        return None
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        return None
    flags_at = _HEAD.size + 8 * num_packets
    return PacketIndex(
        np.frombuffer(data, np.int64, num_packets, _HEAD.size),
        np.frombuffer(data, np.uint8, num_packets, flags_at),
        np.frombuffer(data, np.float64, num_frames, flags_at + num_packets),
        is_sure,
    )


def identity_of(descriptor: int) -> Identity:
    """Return what changes when an open file is another one or has been written to."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


_memory: OrderedDict[str, tuple[Identity, PacketIndex]] = OrderedDict()


def find_index(path: str, identity: Identity) -> PacketIndex | None:
    """Return the kept index of a file, None where there is none or it has become stale."""
    held = _memory.get(path)
    if held is not None and held[0] == identity:
        return held[1]
    try:
        index = from_bytes(_place_of(path).read_bytes(), identity)
    except OSError:
        return None
    if index is not None:
        _remember(path, identity, index)
    return index


def keep_index(path: str, identity: Identity, index: PacketIndex) -> None:
    """Keep the index of a file in memory and, where that can be written, in the cache folder."""
    _remember(path, identity, index)
    place = _place_of(path)
    temporary = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    # Neither flushed nor reported: the sum tells a broken one, and without one it is made again.
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(index.to_bytes(identity))
        temporary.replace(place)


def _remember(path: str, identity: Identity, index: PacketIndex) -> None:
    _memory[path] = identity, index
    _memory.move_to_end(path)
    while len(_memory) > _MOST_IN_MEMORY:
        _memory.popitem(last=False)


def _place_of(path: str) -> Path:
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    return cache_folder() / "frame-index" / name[:2] / name[2:]


def delay_of(shown: NDArray[np.int64]) -> int:
    """Return by how many places a frame is stored after its turn to be shown, at most."""
    if not len(shown):
        return 0
    rank = np.empty(len(shown), np.int64)
    rank[np.argsort(shown, kind="stable")] = np.arange(len(shown))
    return int((np.arange(len(shown)) - rank).max())


def make_index(
    packets: list[tuple[int | None, int]], seconds: list[float], *, is_exact: bool
) -> PacketIndex:
    """Return the index of packets in the order they are stored.

    Args:
        packets: When each is shown (None where nobody knows) and its flags.
        seconds: Of the frames, ascending.
        is_exact: Whether times can be trusted, and the first frame that comes is the first stored.
    """
    pts = np.array([_NO_TIME if pts is None else pts for pts, _ in packets], np.int64)
    flags = np.array([flag for _, flag in packets], np.uint8)
    shown = pts[(flags & IS_SHOWN) > 0]
    is_sure = bool(
        is_exact
        and len(shown) == len(seconds)
        and (shown != _NO_TIME).all()
        and len(np.unique(shown)) == len(shown)
        and len(shown) > 0
        and shown[0] == shown.min()
        and delay_of(shown) <= _MOST_DELAY
    )
    return PacketIndex(pts, flags, np.array(seconds, np.float64), is_sure)
