"""TensorFlow.js graph models: a .json file with the graph, a .bin file with the weights."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import WeightsError
from posemill.weights.tensorflow_graph import Array, TensorFlowGraph, TensorFlowNode

_KINDS = {"float32": np.float32, "int32": np.int32, "float16": np.float16}


def read_tfjs_graph(json_path: Path, weights_path: Path) -> TensorFlowGraph:
    """Return the graph of a TensorFlow.js model; half-precision weights become float32."""
    try:
        content = json.loads(json_path.read_bytes())
        rows = content["modelTopology"]["node"]
        weights = [row for group in content["weightsManifest"] for row in group["weights"]]
        nodes = [_node(row) for row in rows if row["op"] != "Const"]
        return TensorFlowGraph(json_path, nodes, _read_weights(weights, weights_path))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WeightsError(
            "{json_path} with {name} is not a whole TensorFlow.js graph model ({kind}: {error})",
            json_path=json_path,
            name=weights_path.name,
            kind=type(error).__name__,
            error=error,
        ) from error


def _read_weights(rows: list[dict[str, Any]], path: Path) -> dict[str, Array]:
    data, place = path.read_bytes(), 0
    constants = {}
    for row in rows:
        packing = row.get("quantization", {})
        if "scale" in packing:
            raise ValueError(f"{row['name']} is packed with a scale")
        kind = np.dtype(_KINDS[packing.get("dtype", row["dtype"])])
        count = math.prod(row["shape"])
        values = np.frombuffer(data, kind, count, place).reshape(row["shape"])
        constants[row["name"]] = values.astype(_KINDS[row["dtype"]])
        place += count * kind.itemsize
    if place != len(data):
        raise ValueError(f"the weights are {place} bytes, the file has {len(data)}")
    return constants


def _node(row: dict[str, Any]) -> TensorFlowNode:
    attributes = {name: _plain(value) for name, value in row.get("attr", {}).items()}
    return TensorFlowNode(row["name"], row["op"], tuple(row.get("input", ())), attributes)


def _plain(value: dict[str, Any]) -> Any:
    """Return an attribute as a plain value: a number, a word, a list of them."""
    kind, content = next(iter(value.items()), ("", None))
    if content is None:
        return None
    if kind == "s":
        return str(base64.b64decode(content), "utf-8")
    if kind == "i":
        return int(content)
    if kind == "list":
        return [_plain({key: each}) for key, several in content.items() for each in several]
    return content
