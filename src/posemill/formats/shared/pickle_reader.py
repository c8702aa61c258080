"""Reads pickles without Python's unpickler: plain values and numpy arrays come out, nothing runs.

A pickle is a program for a small stack machine, and two of its instructions (fetch a global, call
it) can run anything. This machine knows plain values; its only globals are the six that a numpy
array needs, and they are names here, not functions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError

_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[SU]\d{1,6})$")
_MAX_DIMS = 8
# A list costs a byte in the file and sixty in memory: real files have far fewer.
_MOST_LISTS = 1_000_000  # beside one for every eight bytes


class _Global(Enum):
    """The names a pickle may mention."""

    RECONSTRUCT = "empty array"
    FROM_BUFFER = "array from bytes"
    SCALAR = "numpy number"
    NDARRAY = "the array type"
    DTYPE = "a number type"
    ENCODE = "bytes from text"


_GLOBALS = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Global.RECONSTRUCT
       for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Global.SCALAR for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Global.FROM_BUFFER for core in ("core", "_core")},
    ("numpy", "ndarray"): _Global.NDARRAY,
    ("numpy", "dtype"): _Global.DTYPE,
    ("_codecs", "encode"): _Global.ENCODE,
}  # fmt: skip


class PickledArray:
    """An array of the pickle; empty until its data came. `array_of` takes it out."""

    def __init__(self, value: npt.NDArray[Any] | None = None) -> None:
        self.value = value


class _DtypeName:
    """A number type of the pickle, its byte order still to come."""

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or not _DTYPE.match(code):
            raise ValueError(f"arrays of {code!r}; expected numbers or strings")
        self.code = code.lstrip("<>|=")
        self.order = code[0] if code[0] in "<>" else "<"

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


def array_of(value: object) -> npt.NDArray[Any]:
    """Return an array from the pickle; ValueError for anything else but lists of numbers."""
    if isinstance(value, PickledArray) and value.value is not None:
        return value.value
    if isinstance(value, list):
        array = np.asarray([array_of(v) if isinstance(v, PickledArray) else v for v in value])
        if array.dtype.kind in "biuf":
            return array
    raise ValueError(f"expected an array, got {type(value).__name__}")


def has_annotations(path: Path) -> bool:
    """Return True if a pickle begins as pyskl's do: with `annotations`, or `split` and names."""
    with path.open("rb") as handle:
        start = handle.read(4096)
    before, _, annotations = _partition_at_text(start, b"annotations")
    has_split = bool(_partition_at_text(start[:64], b"split")[1])
    is_ours = bool(_partition_at_text(before, b"keypoints")[1])
    return not is_ours and (bool(annotations) or has_split)


def _partition_at_text(content: bytes, text: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what stands before, in and after the first pickled text that is exactly this one."""
    size = bytes([len(text)])
    for opened in (b"\x8c" + size, b"X" + size + bytes(3), b"U" + size, b"V"):
        before, found, after = content.partition(opened + text)
        if found and (opened != b"V" or after[:1] == b"\n"):
            return before, found, after
    return content, b"", b""


@contextmanager
def open_pickle(path: Path) -> Iterator[Any]:
    """Yield the value in a pickle file. Its arrays are views of the mapped file."""
    with path.open("rb") as handle:
        if not path.stat().st_size:
            raise FormatError("{path}: expected a pickle, got an empty file", path=path)
        # Not closed by hand: arrays may still point into it.
        data = mmap(handle.fileno(), 0, access=ACCESS_READ)
    try:
        content = _Machine(data).run()
    except FormatError as error:
        raise FormatError("{path}: {error}", path=path, error=error) from error
    yield content  # what its user raises names the file itself


class _Machine:
    """The stack machine: `run` follows the instructions up to the final value."""

    def __init__(self, file: mmap | bytes) -> None:
        self._file = file
        self._data = memoryview(file)
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._allowed = _MOST_LISTS + len(self._data) // 8

    def run(self) -> Any:
        while True:
            if self._at >= len(self._data):
                raise FormatError("the pickle is cut off")
            code = self._data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._pop()
            step = _STEPS.get(code)
            if step is None:
                raise FormatError(
                    "the pickle has the instruction {code!r} at byte {at}; only plain values and "
                    "numpy arrays are read",
                    code=bytes([code]),
                    at=self._at - 1,
                )
            step(self)

    def count(self) -> None:
        """Note that a value that holds others was made; raise if there are too many."""
        self._allowed -= 1
        if self._allowed < 0:
            raise FormatError("the pickle makes more lists than its size explains; refused")

    def _take(self, count: int) -> memoryview:
        if count < 0 or self._at + count > len(self._data):
            raise FormatError(
                "the pickle is cut off: {count} bytes announced at byte {at}",
                count=count,
                at=self._at,
            )
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _line(self) -> bytes:
        end = self._file.find(b"\n", self._at)
        if end < 0:
            raise FormatError("the pickle has no line end after byte {at}", at=self._at)
        line = bytes(self._data[self._at : end])
        self._at = end + 1
        return line

    def _word(self) -> str:
        return self._line()[:256].decode("utf-8")

    def _pop(self) -> Any:
        if not self._stack or (self._marks and self._marks[-1] >= len(self._stack)):
            raise FormatError("the pickle takes a value that it never made")
        return self._stack.pop()

    def _top(self) -> Any:
        value = self._pop()
        self._stack.append(value)
        return value

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise FormatError("the pickle ends a list that it never began")
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _append(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise FormatError("the pickle appends to {kind}", kind=type(target).__name__)
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, dict) or len(items) % 2:
            raise FormatError("the pickle sets items of {kind}", kind=type(target).__name__)
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Hashing a nested tuple can take forever; ours are words and numbers.
            if not isinstance(key, str | int):
                raise FormatError(
                    "the pickle has a key of {kind}; expected text", kind=type(key).__name__
                )
            target[key] = value

    def _global(self, module: object, name: object) -> None:
        found = _GLOBALS.get((module, name)) if isinstance(module, str) else None  # type: ignore[arg-type]
        if found is None:
            raise FormatError(
                "the pickle asks for {module}.{name}; only plain values and numpy arrays are "
                "read, nothing is run",
                module=str(module)[:80],
                name=str(name)[:80],
            )
        self._stack.append(found)

    def _call(self) -> None:
        args, function = self._pop(), self._pop()
        if not isinstance(args, tuple) or not isinstance(function, _Global):
            raise FormatError("the pickle calls something that is not a numpy array")
        self._stack.append(_CALLS[function](*args))

    def _build(self) -> None:
        state, target = self._pop(), self._top()
        if isinstance(target, _DtypeName) and isinstance(state, tuple) and len(state) >= 5:
            if any(field is not None for field in state[2:5]) or state[1] not in ("<", ">", "|"):
                raise ValueError("arrays of records; expected numbers")
            target.order = "<" if state[1] == "|" else state[1]
        elif isinstance(target, PickledArray) and isinstance(state, tuple) and len(state) == 5:
            _, shape, dtype, is_fortran, data = state
            target.value = _array(data, dtype, shape, "F" if is_fortran else "C")
        else:
            raise FormatError("the pickle gives a state to {kind}", kind=type(target).__name__)


def _array(data: object, dtype: object, shape: object, order: object) -> npt.NDArray[Any]:
    if not isinstance(dtype, _DtypeName) or not isinstance(shape, tuple) or order not in ("C", "F"):
        raise ValueError("an array without type or shape")
    if len(shape) > _MAX_DIMS or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"an array of shape {str(shape)[:80]}")
    if not isinstance(data, memoryview | bytes | bytearray):
        raise ValueError(f"an array of {type(data).__name__}; expected numbers or strings")
    count = 1
    for length in shape:
        count *= length
    if count * dtype.dtype.itemsize != len(data):
        raise ValueError(f"array {shape} {dtype.dtype} does not fit {len(data)} bytes")
    array: npt.NDArray[Any] = np.ndarray(shape, dtype.dtype, data, order=order)
    return array


def _scalar(dtype: object, data: object) -> Any:
    return _array(data, dtype, (), "C").item()


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("text in an unexpected encoding")
    return text.encode("latin1")


_CALLS: dict[_Global, Callable[..., Any]] = {
    _Global.RECONSTRUCT: lambda *args: PickledArray(),
    _Global.FROM_BUFFER: lambda data, dtype, shape, order: PickledArray(
        _array(data, dtype, shape, order)
    ),
    _Global.SCALAR: _scalar,
    _Global.NDARRAY: lambda *args: PickledArray(),
    _Global.DTYPE: lambda code, *flags: _DtypeName(code),
    _Global.ENCODE: _encode,
}


def _push(make: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine._stack.append(make(machine))

    return step


def _hold(make: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    """Like `_push`, for values that hold others."""

    def step(machine: _Machine) -> None:
        machine.count()
        machine._stack.append(make(machine))

    return step


def _tuple_of(count: int) -> Callable[[_Machine], Any]:
    return lambda m: tuple(reversed([m._pop() for _ in range(count)]))


def _pairs(items: list[Any]) -> dict[Any, Any]:
    machine = _Machine(b"")
    machine._stack.append({})
    machine._set(items)
    result: dict[Any, Any] = machine._stack[0]
    return result


def _put(machine: _Machine, index: int) -> None:
    machine.count()
    machine._memo[index] = machine._top()


def _get(machine: _Machine, index: int) -> Any:
    if index not in machine._memo:
        raise FormatError("the pickle recalls a value ({index}) that it never kept", index=index)
    return machine._memo[index]


def _long(data: memoryview) -> int:
    if len(data) > 64:
        raise FormatError("the pickle has a number of {num_bytes} bytes", num_bytes=len(data))
    return int.from_bytes(data, "little", signed=True)


def _decode(view: memoryview) -> str:
    return str(view, "utf-8", "surrogatepass")


def _int_line(text: str) -> Any:
    if text in ("00", "01"):
        return text == "01"
    if len(text) > 32:
        raise FormatError(
            "the pickle has a number of {num_characters} digits", num_characters=len(text)
        )
    return int(text.rstrip("L"))


def _quoted(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"" or "\\" in text:
        raise ValueError("a quoted text of an unexpected kind")
    return text[1:-1]


def _from_stack(machine: _Machine) -> None:
    name, module = machine._pop(), machine._pop()
    machine._global(module, name)


_STEPS: dict[int, Callable[[_Machine], None]] = {
    ord(code): step
    for code, step in {
        "\x80": lambda m: m._take(1) and None,  # PROTO
        "\x95": lambda m: m._take(8) and None,  # FRAME
        "(": lambda m: m._marks.append(len(m._stack)),
        "0": lambda m: (m._pop(), None)[1],
        "1": lambda m: (m._since_mark(), None)[1],
        "2": lambda m: m._stack.append(m._top()),
        "N": _push(lambda m: None),
        "\x88": _push(lambda m: True),
        "\x89": _push(lambda m: False),
        "I": _push(lambda m: _int_line(m._word())),
        "L": _push(lambda m: _int_line(m._word())),
        "F": _push(lambda m: float(m._word())),
        "S": _push(lambda m: _quoted(m._word())),
        "V": _push(lambda m: m._line().decode("raw-unicode-escape")),
        "J": _push(lambda m: m._number("<i")),
        "K": _push(lambda m: m._number("<B")),
        "M": _push(lambda m: m._number("<H")),
        "\x8a": _push(lambda m: _long(m._take(m._number("<B")))),
        "\x8b": _push(lambda m: _long(m._take(m._number("<i")))),
        "G": _push(lambda m: m._number(">d")),
        "T": _push(lambda m: bytes(m._take(m._number("<i"))).decode("latin1")),
        "U": _push(lambda m: bytes(m._take(m._number("<B"))).decode("latin1")),
        "X": _push(lambda m: _decode(m._take(m._number("<I")))),
        "\x8c": _push(lambda m: _decode(m._take(m._number("<B")))),
        "\x8d": _push(lambda m: _decode(m._take(m._number("<Q")))),
        "B": _push(lambda m: m._take(m._number("<I"))),
        "C": _push(lambda m: m._take(m._number("<B"))),
        "\x8e": _push(lambda m: m._take(m._number("<Q"))),
        "\x96": _push(lambda m: m._take(m._number("<Q"))),
        "]": _hold(lambda m: []),
        "}": _hold(lambda m: {}),
        ")": _push(lambda m: ()),
        "l": _hold(lambda m: m._since_mark()),
        "t": _hold(lambda m: tuple(m._since_mark())),
        "d": _hold(lambda m: _pairs(m._since_mark())),
        "\x85": _hold(_tuple_of(1)),
        "\x86": _hold(_tuple_of(2)),
        "\x87": _hold(_tuple_of(3)),
        "a": lambda m: m._append([m._pop()]),
        "e": lambda m: m._append(m._since_mark()),
        "s": lambda m: m._set(list(_tuple_of(2)(m))),
        "u": lambda m: m._set(m._since_mark()),
        "p": lambda m: _put(m, int(m._word())),
        "q": lambda m: _put(m, m._number("<B")),
        "r": lambda m: _put(m, m._number("<I")),
        "\x94": lambda m: _put(m, len(m._memo)),
        "g": _push(lambda m: _get(m, int(m._word()))),
        "h": _push(lambda m: _get(m, m._number("<B"))),
        "j": _push(lambda m: _get(m, m._number("<I"))),
        "c": lambda m: m._global(m._word(), m._word()),
        "\x93": _from_stack,
        "R": lambda m: m._call(),
        "b": lambda m: m._build(),
    }.items()
}
