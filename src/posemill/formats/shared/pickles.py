"""Reads pickles without Python's unpickler: plain values and numpy arrays come out, nothing runs.
And writes them piece by piece: lists longer than memory, arrays that numpy 1 and 2 both load.

A pickle is a program for a small stack machine. This one knows plain values; its only globals are
the six that a numpy array needs. docs/decisions.md says why `pickle.Unpickler` does not do.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from mmap import ACCESS_READ, mmap
from os import SEEK_CUR
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.files import atomic_path
from posemill.records import FloatArray

_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[SU]\d{1,6})$")
_MAX_DIMS = 8
# A list costs a byte in the file and sixty in memory: real files have far fewer.
_MOST_LISTS = 1_000_000  # beside one for every eight bytes


class PickledArray:
    """An array of the pickle; empty until its data came. `array_of` takes it out."""

    def __init__(self, value: npt.NDArray[Any] | None = None) -> None:
        self.value = value


class _DtypeName:
    """A number type of the pickle, its byte order still to come."""

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or not _DTYPE.match(code):
            raise ValueError(f"arrays of {code!r}; expected numbers or strings")
        self.dtype: np.dtype[Any] = np.dtype(code)


def array_of(value: object) -> npt.NDArray[Any]:
    """Return an array from the pickle; ValueError for anything else but lists of numbers."""
    if isinstance(value, PickledArray) and value.value is not None:
        return value.value
    if isinstance(value, list):
        array = np.asarray([array_of(v) if isinstance(v, PickledArray) else v for v in value])
        if array.dtype.kind in "biuf":
            return array
    raise ValueError(f"expected an array, got {type(value).__name__}")


def has_annotations(start: bytes) -> bool:
    """Return True if a pickle begins as pyskl's do: with `annotations`, or `split` and names."""
    annotations = _place_of_text(start[:4096], b"annotations")
    is_ours = _place_of_text(start[:annotations], b"keypoints") < annotations
    return not is_ours and (annotations < 4096 or _place_of_text(start[:64], b"split") < 64)


def _place_of_text(content: bytes, text: bytes) -> int:
    """Return where the first pickled text begins that is exactly this one; 4096 for nowhere."""
    spelled = (b"\x8c%c" + text, b"U%c" + text, b"X%c\0\0\0" + text)
    places = [content.find(form % len(text)) for form in spelled] + [content.find(b"V%b\n" % text)]
    return min((place for place in places if place >= 0), default=4096)


def load_pickle(path: Path) -> Any:
    """Return the value in a pickle file. Its arrays are views of the mapped file."""
    with path.open("rb") as handle:
        if not path.stat().st_size:
            raise ValueError("expected a pickle, got an empty file")
        # Not closed by hand: arrays may still point into it.
        return _Machine(mmap(handle.fileno(), 0, access=ACCESS_READ)).run()


class _Machine:
    """The stack machine: `run` follows the instructions up to the final value."""

    def __init__(self, data: mmap) -> None:
        self._file, self._data = data, memoryview(data)
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._allowed = _MOST_LISTS + len(data) // 8

    def run(self) -> Any:
        while True:
            at = self._file.tell()
            code = self._file.read(1).decode("latin1")
            if not code:
                raise ValueError("the pickle is cut off")
            name = _NAMES.get(code, "")
            if name == "STOP":
                return self._stack.pop()
            if name in _BYTES:
                self._stack.append(self._take(_BYTES[name](self._file)))
            elif name in _PUSHES:
                self._stack.append(_plain(_READERS[name](self._file)))
            elif name in _STEPS:
                _STEPS[name](self, _READERS[name](self._file) if name in _READERS else None)
            else:
                raise ValueError(
                    f"the pickle has the instruction {code.encode('latin1')!r} at byte {at}; only "
                    f"plain values and numpy arrays are read"
                )

    def hold(self, value: Any) -> None:
        """Push a value that holds others; raise if there are too many."""
        self._allowed -= 1
        if self._allowed < 0:
            raise ValueError("the pickle makes more lists than its size explains; refused")
        self._stack.append(value)

    def _take(self, count: int) -> memoryview:
        at = self._file.tell()
        if count < 0 or at + count > len(self._data):
            raise ValueError(f"the pickle is cut off: {count} bytes announced at byte {at}")
        self._file.seek(count, SEEK_CUR)
        return self._data[at : at + count]

    def _pop_many(self, count: int) -> list[Any]:
        return [self._stack.pop() for _ in range(count)][::-1]

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise ValueError(f"the pickle appends to {type(target).__name__}")
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise ValueError(f"the pickle sets items of {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Hashing a nested tuple can take forever; ours are words and numbers.
            if not isinstance(key, str | int):
                raise ValueError(f"the pickle has a key of {type(key).__name__}; expected text")
            target[key] = value

    def _make_dict(self) -> None:
        items = self._since_mark()
        self.hold({})
        self._set(items)

    def _put(self, index: int) -> None:
        self._memo[index] = value = self._stack.pop()
        self.hold(value)

    def _global(self, module: object, name: object) -> None:
        known = _GLOBALS.get(f"{module} {name}")
        if known is None or not isinstance(module, str) or not isinstance(name, str):
            raise ContentError(
                "the pickle asks for {module}.{name}; only plain values and numpy arrays are "
                "read, nothing is run",
                module=str(module)[:80],
                name=str(name)[:80],
            )
        self._stack.append(known)

    def _call(self) -> None:
        function, args = self._pop_many(2)
        # Nothing that a pickle makes can be called, but what `_GLOBALS` gave it.
        if not isinstance(args, tuple) or not callable(function):
            raise ValueError("the pickle calls something that is not a numpy array")
        self._stack.append(function(*args))

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if isinstance(target, _DtypeName) and isinstance(state, tuple) and len(state) >= 5:
            if any(field is not None for field in state[2:5]) or state[1] not in ("<", ">", "|"):
                raise ValueError("arrays of records; expected numbers")
            target.dtype = target.dtype.newbyteorder(state[1])
        elif isinstance(target, PickledArray) and isinstance(state, tuple) and len(state) == 5:
            _, shape, dtype, is_fortran, data = state
            target.value = _array(data, dtype, shape, "F" if is_fortran else "C")
        else:
            raise ValueError(f"the pickle gives a state to {type(target).__name__}")


def _read_line(file: mmap) -> str:
    return file.readline()[:256].decode("utf-8").removesuffix("\n")


def _plain(value: Any) -> Any:
    """Return an argument; no file of ours or of numpy has a number of more than 64 bytes."""
    if isinstance(value, int) and value.bit_length() > 512:
        raise ValueError(f"the pickle has a number of {value.bit_length()} bits")
    return value


def _array(data: object, dtype: object, shape: object, order: object) -> npt.NDArray[Any]:
    if not isinstance(dtype, _DtypeName) or not isinstance(shape, tuple) or order not in ("C", "F"):
        raise ValueError("an array without type or shape")
    if len(shape) > _MAX_DIMS or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"an array of shape {str(shape)[:80]}")
    if not isinstance(data, memoryview | bytes | bytearray):
        raise ValueError(f"an array of {type(data).__name__}; expected numbers or strings")
    if math.prod(shape) * dtype.dtype.itemsize != len(data):
        raise ValueError(f"array {shape} {dtype.dtype} does not fit {len(data)} bytes")
    return np.ndarray(shape, dtype.dtype, data, order=order)


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("text in an unexpected encoding")
    return text.encode("latin1")


_OF_NUMPY: dict[str, Callable[..., Any]] = {
    "multiarray _reconstruct": lambda *_: PickledArray(),
    "multiarray scalar": lambda dtype, data: _array(data, dtype, (), "C").item(),
    "numeric _frombuffer": lambda *arguments: PickledArray(_array(*arguments)),
}
# The names that a pickle may mention, module and name, and all that is ever called instead of them.
_GLOBALS: dict[str, Callable[..., Any]] = {
    "numpy ndarray": lambda *_: PickledArray(),
    "numpy dtype": lambda code, *_: _DtypeName(code),
    "_codecs encode": _encode,
    **{f"numpy.core.{name}": function for name, function in _OF_NUMPY.items()},
    **{f"numpy._core.{name}": function for name, function in _OF_NUMPY.items()},
}

_NAMES = {opcode.code: opcode.name for opcode in pickletools.opcodes}
_READERS: dict[str, Callable[[Any], Any]] = {
    **{opcode.name: opcode.arg.reader for opcode in pickletools.opcodes if opcode.arg},
    "GLOBAL": lambda file: (_read_line(file), _read_line(file)),  # which pickletools would unescape
}
# Instructions whose argument is the value.
_PUSHES = frozenset(
    "INT LONG FLOAT UNICODE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT BINSTRING "
    "SHORT_BINSTRING BINUNICODE SHORT_BINUNICODE BINUNICODE8".split()
)
# Instructions that bring bytes, and what reads their number: they stay in the mapped file.
_BYTES: dict[str, Callable[[Any], int]] = {
    "BINBYTES": pickletools.read_uint4,
    "SHORT_BINBYTES": pickletools.read_uint1,
    "BINBYTES8": pickletools.read_uint8,
    "BYTEARRAY8": pickletools.read_uint8,
}
_STEPS: dict[str, Callable[[_Machine, Any], object]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda m, _: None),
    "MARK": lambda m, _: m._marks.append(len(m._stack)),
    "POP": lambda m, _: m._stack.pop(),
    "POP_MARK": lambda m, _: m._since_mark(),
    "DUP": lambda m, _: m._stack.append(m._stack[-1]),
    "NONE": lambda m, _: m._stack.append(None),
    "NEWTRUE": lambda m, _: m._stack.append(True),
    "NEWFALSE": lambda m, _: m._stack.append(False),
    "EMPTY_TUPLE": lambda m, _: m._stack.append(()),
    "EMPTY_LIST": lambda m, _: m.hold([]),
    "EMPTY_DICT": lambda m, _: m.hold({}),
    "LIST": lambda m, _: m.hold(m._since_mark()),
    "TUPLE": lambda m, _: m.hold(tuple(m._since_mark())),
    "TUPLE1": lambda m, _: m.hold(tuple(m._pop_many(1))),
    "TUPLE2": lambda m, _: m.hold(tuple(m._pop_many(2))),
    "TUPLE3": lambda m, _: m.hold(tuple(m._pop_many(3))),
    "DICT": lambda m, _: m._make_dict(),
    "APPEND": lambda m, _: m._append(m._pop_many(1)),
    "APPENDS": lambda m, _: m._append(m._since_mark()),
    "SETITEM": lambda m, _: m._set(m._pop_many(2)),
    "SETITEMS": lambda m, _: m._set(m._since_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, index: m._put(index)),
    "MEMOIZE": lambda m, _: m._put(len(m._memo)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, at: m._stack.append(m._memo[at])),
    "GLOBAL": lambda m, names: m._global(*names),
    "STACK_GLOBAL": lambda m, _: m._global(*m._pop_many(2)),
    "REDUCE": lambda m, _: m._call(),
    "BUILD": lambda m, _: m._build(),
}


# PROTO 3; memo 253 = numpy's array maker, 254 = the array type, 255 = little-endian float32, as
# `pickled` counts from 0. numpy 1 and 2 both know `numpy.core.multiarray`.
_PRELUDE = (
    b"\x80\x03cnumpy.core.multiarray\n_reconstruct\nq\xfd0"
    b"cnumpy\nndarray\nq\xfe0"
    b"cnumpy\ndtype\nX\x02\x00\x00\x00f4K\x00K\x01\x87R"
    b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbq\xff0"
)
_ARRAY = b"h\xfdh\xfeK\x00\x85C\x01b\x87R(K\x01"


def pickled(value: object) -> bytes:
    """Return the instructions for a text, a number, None or a tuple of them."""
    return pickle.dumps(value, 3)[2:-1]  # without what begins and ends a file


def pickled_array(array: FloatArray) -> bytes:
    """Return the instructions for a float32 array."""
    data = array.astype("<f4", copy=False).tobytes()
    return b"".join((_ARRAY, pickled(array.shape), b"h\xff\x89", pickled(data), b"tb"))


def pickled_list(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the instructions for a list of things already pickled."""
    return chain([b"]("], items, [b"e"])


def pickled_dict(
    items: Mapping[str, bytes | Iterable[bytes]], *, start: bytes = b"}"
) -> Iterator[bytes]:
    """Yield the instructions for a dict of things already pickled; `start` makes an older one."""
    yield start + b"("
    for name, value in items.items():
        yield pickled(name)
        yield from [value] if isinstance(value, bytes) else value
    yield b"u"


def write_pickle(path: Path, items: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Write the file of a dict of things already pickled."""
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        handle.writelines(chain([_PRELUDE], pickled_dict(items), [b"."]))
