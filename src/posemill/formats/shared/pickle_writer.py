"""Writes pickles piece by piece: lists longer than memory, arrays that numpy 1 and 2 both load.

The pieces are pickle instructions (protocol 3). `PRELUDE` puts what every array needs into the
memo; after it, an array costs about 40 bytes beside its data.
"""

from __future__ import annotations

import struct

from posemill.records import FloatArray

# PROTO 3; memo 0 = numpy's array maker, 1 = the array type, 2 = little-endian float32.
# `numpy.core.multiarray` is the name that numpy 1 has and numpy 2 keeps for old pickles.
PRELUDE = (
    b"\x80\x03cnumpy.core.multiarray\n_reconstruct\nq\x000"
    b"cnumpy\nndarray\nq\x010"
    b"cnumpy\ndtype\nX\x02\x00\x00\x00f4K\x00K\x01\x87R"
    b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbq\x020"
)
NONE, DICT, LIST, MARK, APPENDS, SETITEMS, STOP = b"N", b"}", b"]", b"(", b"e", b"u", b"."
_ARRAY = b"h\x00h\x01K\x00\x85C\x01b\x87R(K\x01"


def pickled_text(text: str) -> bytes:
    """Return the instructions for a string."""
    encoded = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def pickled_int(value: int) -> bytes:
    """Return the instructions for a number of up to 32 bits: five bytes, four of them its value."""
    return b"J" + struct.pack("<i", value)


def pickled_tuple(items: list[bytes]) -> bytes:
    """Return the instructions for a tuple of things already pickled."""
    return MARK + b"".join(items) + b"t"


def pickled_array(array: FloatArray) -> bytes:
    """Return the instructions for a float32 array; needs `PRELUDE` before it."""
    data = array.astype("<f4", copy=False).tobytes()
    shape = pickled_tuple([pickled_int(length) for length in array.shape])
    return b"".join((_ARRAY, shape, b"h\x02\x89B", struct.pack("<I", len(data)), data, b"tb"))
