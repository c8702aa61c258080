"""A TFLite file without the operators that only unwanted outputs need.

The file stays as it is but for two tables, which get shorter: that of the operators, and that of
the outputs. What is left is computed as before, bit for bit. A piece from the middle of a network
begins with another tensor, whose number then stands in the place of the input's.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from posemill.errors import WeightsError

# Fields of the table `SubGraph` in TFLite's schema.
_INPUTS_FIELD, _OUTPUTS_FIELD, _OPERATORS_FIELD = 6, 8, 10


def prune(data: bytes, outputs: Collection[str], *, start: str | None = None) -> bytes:
    """Return a TFLite model that computes only some tensors, out of its input or of another one.

    Args:
        data: The model.
        outputs: Names of tensors, at most as many as it has outputs.
        start: The name of the tensor to begin with; None: its own input.
    """
    import tflite

    pruned = bytearray(data)
    graph = tflite.Model.GetRootAs(pruned, 0).Subgraphs(0)
    tensors = tensors_named(graph, outputs)
    tensors.sort(key=[*graph.OutputsAsNumpy().tolist(), *tensors].index)  # their order stays
    begin = tensors_named(graph, [start])[0] if start is not None else None
    operators = needed_operators(graph, tensors, begin)
    _shorten(pruned, graph, _OUTPUTS_FIELD, tensors)
    if begin is not None:
        _shorten(pruned, graph, _INPUTS_FIELD, [begin])
    # An entry says how far behind itself its operator lies.
    first = graph._tab.Vector(graph._tab.Offset(_OPERATORS_FIELD))
    places = [first + 4 * i + _number(pruned, first + 4 * i) for i in operators]
    entries = [place - (first + 4 * row) for row, place in enumerate(places)]
    _shorten(pruned, graph, _OPERATORS_FIELD, entries)
    return bytes(pruned)


def tensors_named(graph: Any, names: Collection[str]) -> list[int]:
    """Return the numbers of tensors of a TFLite subgraph."""
    numbers = range(graph.TensorsLength())
    found = {graph.Tensors(number).Name().decode(): number for number in numbers}
    if missing := sorted(set(names) - set(found)):
        outputs = sorted(graph.Tensors(int(i)).Name().decode() for i in graph.OutputsAsNumpy())
        raise WeightsError(
            "no output {missing}; there are {outputs}", missing=missing, outputs=outputs
        )
    return [found[name] for name in names]


def needed_operators(graph: Any, tensors: Collection[int], start: int | None = None) -> list[int]:
    """Return the operators of a TFLite subgraph that tensors need, if `start` is given."""
    needed, kept = set(tensors), []
    for index in reversed(range(graph.OperatorsLength())):
        operator = graph.Operators(index)
        if needed.intersection(operator.OutputsAsNumpy().tolist()):
            needed.update(operator.InputsAsNumpy().tolist())
            needed.discard(start)
            kept.append(index)
    return kept[::-1]


def _number(data: bytearray, place: int) -> int:
    (number,) = struct.unpack_from("<I", data, place)
    return int(number)


def _shorten(data: bytearray, graph: Any, field: int, values: list[int]) -> None:
    """Overwrite the first entries of a list of 32-bit numbers, and its length before them."""
    start = graph._tab.Vector(graph._tab.Offset(field))
    struct.pack_into(f"<{1 + len(values)}I", data, start - 4, len(values), *values)
