"""Frozen TensorFlow graphs, such as OpenPose's mobilenet: the fields that matter of a .pb file.

The file is protobuf, and is read here without TensorFlow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import WeightsError
from posemill.weights.tensorflow_graph import (
    Array,
    TensorFlowGraph,
    TensorFlowNode,
    Value,
    export_graph,
)

# Numbers of the fields of TensorFlow's messages, by message.
_NODE, _NAME, _OP, _INPUT, _ATTRIBUTES = 1, 1, 2, 3, 5
_KEY, _VALUE = 1, 2
_LIST, _TEXT, _INTEGER, _NUMBER, _TENSOR = 1, 2, 3, 4, 8
_DTYPE, _SHAPE, _CONTENT, _FLOATS, _WHOLES = 1, 2, 4, 5, 7
_FLOAT = 1  # of TensorFlow's kinds of numbers


def read_frozen_graph(path: Path) -> TensorFlowGraph:
    """Return the graph of a frozen file."""
    nodes: list[TensorFlowNode] = []
    constants: dict[str, Array] = {}
    try:
        for number, data in _fields(path.read_bytes()):
            if number == _NODE:
                node = _node(data)
                if node.op == "Const":
                    constants[node.name] = node.attributes["value"]
                else:
                    nodes.append(node)
    except (IndexError, ValueError, KeyError, TypeError, struct.error) as error:
        raise WeightsError(
            "{path} is not a whole frozen TensorFlow graph ({error})", path=path, error=error
        ) from error
    return TensorFlowGraph(path, nodes, constants)


def export_frozen_graph(path: Path) -> bytes:
    """Return the ONNX model of a frozen graph with one picture in and its last node out.

    The model takes `(batch, 3, height, width)` float32 of any size.
    """
    graph = read_frozen_graph(path)
    picture = next((node.name for node in graph.nodes if node.op == "Placeholder"), None)
    if picture is None:
        raise WeightsError("{path}: expected a graph with an input, got none", path=path)
    return export_graph(graph, start=Value(picture), outputs=[graph.nodes[-1].name])


def _node(data: bytes) -> TensorFlowNode:
    fields = list(_fields(data))
    texts = {number: str(value, "utf-8") for number, value in fields if number in (_NAME, _OP)}
    attributes = {}
    for number, value in fields:
        if number == _ATTRIBUTES:
            entry = dict(_fields(value))
            attributes[str(entry[_KEY], "utf-8")] = _plain(entry.get(_VALUE, b""))
    inputs = tuple(str(value, "utf-8") for number, value in fields if number == _INPUT)
    return TensorFlowNode(texts[_NAME], texts[_OP], inputs, attributes)


def _plain(data: bytes) -> Any:
    """Return an attribute as a plain value: a number, a word, a list, an array; None: another."""
    for number, value in _fields(data):
        if number == _TEXT:
            return str(value, "utf-8")
        if number == _INTEGER:
            return value
        if number == _NUMBER:
            return struct.unpack("<f", value)[0]
        if number == _LIST:
            return _plain_list(value)
        if number == _TENSOR:
            return _tensor(value)
    return None


def _plain_list(data: bytes) -> list[Any]:
    found: list[Any] = []
    for number, value in _fields(data):
        if number == _TEXT:
            found.append(str(value, "utf-8"))
        elif number == _INTEGER:
            found += list(value)  # each below 128 is one byte
    return found


def _tensor(data: bytes) -> Array:
    fields = dict(_fields(data))
    sizes = [
        dict(_fields(size)).get(1, 0)
        for number, size in _fields(fields.get(_SHAPE, b""))
        if number == 2
    ]
    if fields[_DTYPE] != _FLOAT:
        return np.array(list(fields.get(_WHOLES, b"")), np.int64)
    content = fields.get(_CONTENT, fields.get(_FLOATS, b""))
    return np.frombuffer(content, np.float32).reshape(sizes)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: their number, and a whole number or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        value: Any
        if kind == 0:
            value, place = _varint(data, place)
        else:
            if kind == 2:
                size, place = _varint(data, place)
            else:
                size = {5: 4, 1: 8}[kind]
            value, place = data[place : place + size], place + size
            if len(value) < size:
                raise ValueError("it ends inside a field")
        yield key >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
