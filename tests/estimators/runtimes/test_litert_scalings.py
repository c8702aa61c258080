"""TFLite files whose scalings are a product and a sum, each with a rounding of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from posemill.estimators.runtimes.litert_scalings import split_scalings
from posemill.weights.tflite_graph import read_graph
from posemill.weights.tflite_prune import prune


def run(model: bytes, pixels: np.ndarray) -> np.ndarray:
    interpreter: Any = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], pixels)
    interpreter.invoke()
    result: np.ndarray = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


def operators(model: bytes) -> list[str]:
    interpreter: Any = Interpreter(model_content=model)
    return [each["op_name"] for each in interpreter._get_ops_details()]


def test_product_and_sum_are_rounded_one_after_the_other(model_files: dict[str, Path]) -> None:
    path = model_files["hand_recrop"]
    pixels = np.random.default_rng(3).random((1, 256, 256, 3), np.float32)
    before = run(prune(path.read_bytes(), ["p_re_lu"]), pixels)
    graph = read_graph(path, ["batch_normalization"])
    _, weights, bias = (graph.constants.get(number) for number in graph.nodes[-1].inputs)
    assert weights is not None
    assert bias is not None
    expected = before * weights.reshape(-1) + bias
    found = run(split_scalings(prune(path.read_bytes(), ["batch_normalization"])), pixels)
    np.testing.assert_array_equal(found, expected)


def test_only_scalings_are_split(model_files: dict[str, Path]) -> None:
    data = model_files["hand_recrop"].read_bytes()
    whole, split = operators(data), operators(split_scalings(data))
    num_split = split.count("MUL")
    assert num_split == 13
    assert split.count("DEPTHWISE_CONV_2D") == whole.count("DEPTHWISE_CONV_2D") - num_split
    assert split.count("ADD") == whole.count("ADD") + num_split
    assert len(split) == len(whole) + num_split
