"""Every operator as ONNX Runtime computes it, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from posemill.weights.onnx_export import export_onnx
from posemill.weights.onnx_writer import INPUT_NAME, OnnxWriter
from posemill.weights.tflite_graph import Graph, Node

RNG = np.random.default_rng(1)
PIXELS = RNG.integers(0, 256, (2, 4, 6, 3), np.uint8)


def run_graph(
    graph: Graph, value_range: tuple[float, float] = (0.0, 1.0), pixels: np.ndarray = PIXELS
) -> list[np.ndarray]:
    """Return what a graph gives for two pictures."""
    model = export_onnx(graph, value_range=value_range, name="small")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", *pixels.shape[1:]]
    values = session.run(list(graph.outputs), {INPUT_NAME: pixels})
    for output, one in zip(session.get_outputs(), values, strict=True):
        assert output.shape == ["batch", *one.shape[1:]]
    return list(values)


def run(
    op: str, shape: tuple[int, ...], *, constants: tuple[np.ndarray, ...] = (),
    value_range: tuple[float, float] = (0.0, 1.0), num_pictures: int = 1, **options: Any
) -> np.ndarray:  # fmt: skip
    """Return what a graph of one operator gives for two pictures of 4 x 6."""
    graph = Graph([], {}, {0: (1, 4, 6, 3)}, [0], {})
    numbers = (graph.new_tensor(value.shape, value) for value in constants)
    inputs = [0] * num_pictures + list(numbers)
    graph.outputs = {"out": graph.new_tensor(shape)}
    graph.nodes.append(Node(op, inputs, [*graph.outputs.values()], options))
    return run_graph(graph, value_range)[0]


def channels_first(values: np.ndarray) -> np.ndarray:
    return values.transpose(0, 3, 1, 2)


PICTURE = channels_first(PIXELS.astype(np.float32) / 255)


def test_pixels_become_the_range_a_network_expects() -> None:
    np.testing.assert_allclose(run("Relu", (1, 4, 6, 3)), PICTURE, atol=1e-6)
    both = run("Pad", (1, 4, 6, 3), pads=np.zeros((4, 2), int), value_range=(-1.0, 1.0))
    np.testing.assert_allclose(both, 2 * PICTURE - 1, atol=1e-6)


def test_a_convolution_sums_over_its_window_and_channels() -> None:
    weights = RNG.normal(size=(5, 2, 3, 3)).astype(np.float32)  # out, height, width, in
    bias = RNG.normal(size=5).astype(np.float32)
    options = {"strides": (2, 1), "pads": (1, 0, 0, 2), "activation": ""}
    found = run("Conv", (1, 2, 6, 5), constants=(weights, bias), **options)
    padded = np.pad(PICTURE, ((0, 0), (0, 0), (1, 0), (0, 2)))
    expected = np.zeros_like(found)
    for y in range(2):
        for x in range(6):
            window = padded[:, :, 2 * y : 2 * y + 2, x : x + 3]
            expected[:, :, y, x] = np.einsum("bcyx,oyxc->bo", window, weights) + bias
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(
    ("activation", "apply"),
    [
        ("", lambda values: values),
        ("Relu", lambda values: np.maximum(values, 0)),
        ("Relu6", lambda values: np.clip(values, 0, 6)),
    ],
)
def test_a_depthwise_convolution_keeps_channels_apart(
    activation: str, apply: Callable[[np.ndarray], np.ndarray], has_bias: bool
) -> None:
    factor = np.array([-3, 9, 0.5], np.float32)
    bias = np.array([1, 2, 3], np.float32) * has_bias
    constants = (factor.reshape(1, 1, 1, 3), *([bias] if has_bias else []))
    options = {"strides": (1, 1), "pads": (0, 0, 0, 0), "activation": activation}
    found = run("Depthwise", (1, 4, 6, 3), constants=constants, **options)
    expected = apply(PICTURE * factor[:, None, None] + bias[:, None, None])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("activation", ["", "Relu"])
def test_a_sum_may_be_activated(activation: str) -> None:
    shape = (1, 4, 6, 3)
    found = run("Add", shape, num_pictures=2, value_range=(-1.0, 1.0), activation=activation)
    expected = 2 * (2 * PICTURE - 1)
    np.testing.assert_allclose(
        found, np.maximum(expected, 0) if activation else expected, atol=1e-5
    )


def test_operators_of_one_input_do_what_their_names_say() -> None:
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    signed = 2 * PICTURE - 1
    found = run("PRelu", (1, 4, 6, 3), constants=(slope.reshape(1, 1, 3),), value_range=(-1, 1))
    expected = np.where(signed > 0, signed, signed * slope[:, None, None])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    found = run("Sigmoid", (1, 4, 6, 3))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-PICTURE)), atol=1e-5)
    found = run("FirstChannels", (1, 4, 6, 2))
    np.testing.assert_allclose(found, PICTURE[:, :2], atol=1e-6)
    found = run("SpatialMean", (1, 3))
    np.testing.assert_allclose(found, PICTURE.mean((2, 3)), atol=1e-5)


def test_pads_are_before_and_after_each_side() -> None:
    pads = np.array([[0, 0], [1, 2], [3, 4], [5, 6]])
    found = run("Pad", (1, 7, 13, 14), pads=pads)
    expected = np.pad(PICTURE, ((0, 0), (5, 6), (1, 2), (3, 4)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_pool_takes_the_largest_of_its_window() -> None:
    options = {"kernel": (2, 3), "strides": (2, 3), "pads": (0, 0, 0, 0)}
    found = run("MaxPool", (1, 2, 2, 3), **options)
    expected = PICTURE.reshape(2, 3, 2, 2, 2, 3).max((3, 5))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_enlarging_is_bilinear_between_the_middles_of_pixels() -> None:
    found = run("Resize", (1, 8, 6, 3))
    above, below = PICTURE[:, :, 0], PICTURE[:, :, 1]
    np.testing.assert_allclose(found[:, :, 0], above, atol=1e-5)
    np.testing.assert_allclose(found[:, :, 1], 0.75 * above + 0.25 * below, atol=1e-5)
    wide = run("Resize", (1, 4, 18, 3))
    np.testing.assert_allclose(wide[..., 1], PICTURE[..., 0], atol=1e-5)  # a third of the way
    assert wide.shape == (2, 3, 4, 18)


def test_rows_are_flattened_in_the_order_of_tflite() -> None:
    found = run("Reshape", (1, 12, 6))
    np.testing.assert_allclose(found, PIXELS.reshape(2, 12, 6) / 255, atol=1e-6)


def test_a_map_of_one_pixel_becomes_a_row() -> None:
    options = {"kernel": (4, 6), "strides": (1, 1), "pads": (0, 0, 0, 0)}
    found = run("MaxPool", (1, 1, 1, 3), **options)
    np.testing.assert_allclose(found, PICTURE.max((2, 3)), atol=1e-6)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_joining_knows_which_axis_is_which(axis: int) -> None:
    both = np.concatenate([PIXELS, PIXELS], axis)
    found = run("Concat", (1, *both.shape[1:]), num_pictures=2, axis=axis)
    np.testing.assert_allclose(found, channels_first(both.astype(np.float32) / 255), atol=1e-6)


def test_channels_spread_into_blocks_and_dense_layers_multiply() -> None:
    graph = Graph([], {}, {0: (1, 4, 6, 12)}, [0], {})
    out = graph.new_tensor((1, 8, 12, 3))
    graph.nodes.append(Node("DepthToSpace", [0], [out], {"block": 2}))
    mean, weights = graph.new_tensor((1, 3)), RNG.normal(size=(5, 3)).astype(np.float32)
    graph.nodes.append(Node("SpatialMean", [out], [mean]))
    bias = RNG.normal(size=5).astype(np.float32)
    inputs = [mean, graph.new_tensor((5, 3), weights), graph.new_tensor((5,), bias)]
    dense = graph.new_tensor((1, 5))
    graph.nodes.append(Node("Dense", inputs, [dense]))
    graph.outputs = {"blocks": out, "dense": dense}
    pixels = RNG.integers(0, 256, (2, 4, 6, 12), np.uint8)
    blocks, row = run_graph(graph, pixels=pixels)
    spread = (pixels.astype(np.float32) / 255).reshape(2, 4, 6, 2, 2, 3)
    spread = spread.transpose(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 3)
    np.testing.assert_allclose(blocks, channels_first(spread), atol=1e-6)
    np.testing.assert_allclose(row, spread.mean((1, 2)) @ weights.T + bias, atol=1e-5)


def test_the_model_says_what_it_is_and_an_odd_activation_is_refused() -> None:
    graph = Graph([], {}, {0: (1, 4, 6, 3)}, [0], {"out": 0})
    model = onnx.load_from_string(export_onnx(graph, value_range=(0, 1), name="small"))
    assert (model.graph.name, model.ir_version) == ("small", 8)
    assert model.opset_import[0].version == 17
    with pytest.raises(ValueError, match="unknown activation 'Tanh'"):
        OnnxWriter().activate("a", "Tanh", "b")
