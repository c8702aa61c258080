"""A TFLite file without the operators that only unwanted outputs need.

The file stays as it is but for two tables, which get shorter: that of the operators, and that of
the outputs. What is left is computed as before, bit for bit.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from posemill.errors import WeightsError

# Fields of the table `SubGraph` in TFLite's schema.
_OUTPUTS_FIELD, _OPERATORS_FIELD = 8, 10


def prune(data: bytes, outputs: Collection[str]) -> bytes:
    """Return a TFLite model that computes only some of its outputs."""
    import tflite

    pruned = bytearray(data)
    graph = tflite.Model.GetRootAs(pruned, 0).Subgraphs(0)
    found = {graph.Tensors(int(i)).Name().decode(): int(i) for i in graph.OutputsAsNumpy()}
    if missing := sorted(set(outputs) - set(found)):
        raise WeightsError(f"no output {missing}; there are {sorted(found)}")
    tensors = [tensor for name, tensor in found.items() if name in outputs]
    operators = _needed_operators(graph, tensors)
    _shorten(pruned, graph, _OUTPUTS_FIELD, tensors)
    # An entry says how far behind itself its operator lies.
    start = graph._tab.Vector(graph._tab.Offset(_OPERATORS_FIELD))
    places = [start + 4 * i + _number(pruned, start + 4 * i) for i in operators]
    entries = [place - (start + 4 * row) for row, place in enumerate(places)]
    _shorten(pruned, graph, _OPERATORS_FIELD, entries)
    return bytes(pruned)


def _needed_operators(graph: Any, tensors: list[int]) -> list[int]:
    needed, kept = set(tensors), []
    for index in reversed(range(graph.OperatorsLength())):
        operator = graph.Operators(index)
        if needed.intersection(operator.OutputsAsNumpy().tolist()):
            needed.update(operator.InputsAsNumpy().tolist())
            kept.append(index)
    return kept[::-1]


def _number(data: bytearray, place: int) -> int:
    (number,) = struct.unpack_from("<I", data, place)
    return int(number)


def _shorten(data: bytearray, graph: Any, field: int, values: list[int]) -> None:
    """Overwrite the first entries of a list of 32-bit numbers, and its length before them."""
    start = graph._tab.Vector(graph._tab.Offset(field))
    struct.pack_into(f"<{1 + len(values)}I", data, start - 4, len(values), *values)
