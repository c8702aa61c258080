"""Samples as bytes and back, without pickle: reading a stranger's file runs nothing.

Eight bytes say how long the description is, then comes the description (JSON), then the numbers of
every array, each at a multiple of 64.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

_ALIGN = 64
_KINDS = "biufcSUmM"  # numpy's numbers, texts and times; no objects
KEPT = "arrays, tensors, numbers, texts, None, and tuples, lists and dicts of them"


def pack(value: Any) -> bytes:
    """Return the bytes of a sample.

    Args:
        value: Arrays, tensors, numbers, texts, None, and tuples, lists and dicts of them, nested
            as one likes. Anything else is a `TypeError` that says where it is.
    """
    blocks: list[bytes] = []
    text = json.dumps(_describe(value, "", blocks)).encode()
    data = bytearray(len(text).to_bytes(8, "little") + text)
    for block in blocks:
        data += bytes(-len(data) % _ALIGN)
        data += block
    return bytes(data)


def unpack(data: bytes | memoryview) -> Any:
    """Return the sample; its arrays are copies, free to be changed.

    Raises:
        ValueError: These are not the bytes of a sample.
    """
    view = memoryview(data)
    size = int.from_bytes(view[:8], "little")
    try:
        tree = json.loads(bytes(view[8 : 8 + size]))
        return _Reader(view, 8 + size).build(tree)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a packed sample: {error}") from error


def _describe(value: Any, where: str, blocks: list[bytes]) -> Any:
    """Return what JSON can hold of a value; the numbers of its arrays go to `blocks`."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (tuple, list):
        parts = [_describe(part, f"{where}[{i}]", blocks) for i, part in enumerate(value)]
        return {kind.__name__: parts}
    if kind is dict:
        if not all(type(key) in (str, int) for key in value):
            raise TypeError(f"{where or 'the sample'}: expected names or numbers as keys of a dict")
        return {
            "dict": [[key, _describe(v, f"{where}[{key!r}]", blocks)] for key, v in value.items()]
        }
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu().contiguous()
        blocks.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape)]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _KINDS:
        blocks.append(np.ascontiguousarray(value).tobytes())
        name = "array" if isinstance(value, np.ndarray) else "number"
        return {name: [value.dtype.str, list(value.shape)]}
    named = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    raise TypeError(f"{where or 'the sample'} is a {named}, which cannot be kept: {KEPT} can")


class _Reader:
    """Builds a value; arrays come in the order in which they were described."""

    def __init__(self, view: memoryview, start: int) -> None:
        self._view, self._at = view, start

    def build(self, node: Any) -> Any:
        """Return the value of a node of the description."""
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind in ("tuple", "list"):
            parts = [self.build(part) for part in content]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "dict":
            return {key: self.build(part) for key, part in content}
        name, shape = content
        if kind == "tensor":
            import torch

            dtype = getattr(torch, name)
            if not math.prod(shape):
                return torch.empty(shape, dtype=dtype)
            raw = self._take(np.dtype(np.uint8), (math.prod(shape) * dtype.itemsize,))
            return torch.from_numpy(raw).view(dtype).reshape(shape)
        array = self._take(np.dtype(name), tuple(shape))
        return array if kind == "array" else array[()]

    def _take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if dtype.kind not in _KINDS:
            raise ValueError(f"an array of {dtype}")
        start = self._at + -self._at % _ALIGN
        count = math.prod(shape)
        self._at = start + count * dtype.itemsize
        if self._at > len(self._view):
            raise ValueError("it ends too early")
        if not count:
            return np.zeros(shape, dtype)
        array: Any = np.frombuffer(self._view, dtype, count, start)
        found: np.ndarray[Any, Any] = array.reshape(shape).copy()
        return found
