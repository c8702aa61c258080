"""Small TFLite files, written on the spot, as the converter reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from made_up_networks import TfliteMaker

from posemill.errors import WeightsError
from posemill.weights.tflite_graph import Graph, Node, _window_pads

CODES = schema.BuiltinOperator


def conv_options(**changes: int) -> Any:
    options = schema.Conv2DOptionsT()
    options.strideH, options.strideW, options.dilationHFactor, options.dilationWFactor = 1, 2, 1, 1
    for name, value in changes.items():
        setattr(options, name, value)
    return options


@pytest.mark.parametrize(
    ("padding", "pads"),
    [(1, (0, 0, 0, 0)), (0, (1, 0, 1, 1))],  # valid; same: 6 rows by 1, 8 columns by 2
)
@pytest.mark.parametrize(("code", "activation"), [(0, ""), (1, "Relu"), (3, "Relu6")])
def test_a_convolution_has_strides_pads_and_an_activation(
    padding: int, pads: tuple[int, ...], code: int, activation: str, tmp_path: Path
) -> None:
    maker = TfliteMaker()
    weights = np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3)
    inputs = [0, maker.constant(weights), maker.constant(np.ones(2, np.float32))]
    options = conv_options(padding=padding, fusedActivationFunction=code)
    out = maker.operator(CODES.CONV_2D, inputs, (1, 6, 4, 2), options)
    graph = maker.read(tmp_path, out)
    expected = {"strides": (1, 2), "pads": pads, "activation": activation}
    assert graph.nodes == [Node("Conv", inputs, [out], expected)]
    np.testing.assert_array_equal(graph.constants[inputs[1]], weights)
    assert graph.shapes == {0: (1, 6, 8, 3), 1: (2, 3, 3, 3), 2: (2,), 3: (1, 6, 4, 2)}
    assert (graph.inputs, graph.outputs) == ([0], {"out0": out})


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        (8, 3, 1, (1, 1)),
        (8, 3, 2, (0, 1)),  # the odd one goes to the end
        (7, 3, 2, (1, 1)),
        (8, 5, 2, (1, 2)),
        (8, 1, 2, (0, 0)),  # a stride larger than the window leaves nothing to pad
        (8, 2, 8, (0, 0)),
        (5, 2, 1, (0, 1)),
    ],
)
def test_same_padding_is_that_of_tflite(
    size: int, kernel: int, stride: int, pads: tuple[int, int]
) -> None:
    both = _window_pads(0, (size, size), (kernel, kernel), (stride, stride))
    assert both == (pads[0], pads[0], pads[1], pads[1])
    first, _, last, _ = _window_pads(0, (size, 9), (kernel, 1), (stride, 1))
    assert (first, last) == pads


@pytest.mark.parametrize("name", ["dilationHFactor", "dilationWFactor"])
def test_a_dilated_convolution_is_refused(name: str, tmp_path: Path) -> None:
    maker = TfliteMaker()
    inputs = [0, maker.constant(np.ones((2, 3, 3, 3), np.float32))]
    out = maker.operator(CODES.CONV_2D, inputs, (1, 6, 4, 2), conv_options(**{name: 2}))
    with pytest.raises(WeightsError, match="dilated convolutions are not known to this converter"):
        maker.read(tmp_path, out)


def test_an_operator_that_is_not_known_is_named(tmp_path: Path) -> None:
    maker = TfliteMaker()
    out = maker.operator(CODES.COS, [0], (1, 6, 8, 3))
    with pytest.raises(WeightsError, match=r"small.tflite: operator COS is not one this converter"):
        maker.read(tmp_path, out)


def test_a_pool_has_its_window_and_pads(tmp_path: Path) -> None:
    maker, options = TfliteMaker(), schema.Pool2DOptionsT()
    options.filterHeight, options.filterWidth, options.strideH, options.strideW = 3, 2, 3, 2
    options.padding = 0
    out = maker.operator(CODES.MAX_POOL_2D, [0], (1, 2, 4, 3), options)
    (node,) = maker.read(tmp_path, out).nodes
    expected = {"kernel": (3, 2), "strides": (3, 2), "pads": (0, 0, 0, 0)}
    assert node == Node("MaxPool", [0], [out], expected)


SLICE = ((0, 0, 0, 0), (1, 6, 8, 2), (1, 1, 1, 1))


@pytest.mark.parametrize(
    ("code", "constants", "shape", "options", "op"),
    [
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (True, False), "Resize"),
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (False, False), ""),
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (True, True), ""),
        (CODES.STRIDED_SLICE, SLICE, (1, 6, 8, 2), None, "FirstChannels"),
        (CODES.STRIDED_SLICE, [(0, 0, 0, 1), *SLICE[1:]], (1, 6, 8, 2), None, ""),
        (CODES.STRIDED_SLICE, [SLICE[0], (1, 5, 8, 2), SLICE[2]], (1, 6, 8, 2), None, ""),
        (CODES.STRIDED_SLICE, [*SLICE[:2], (1, 1, 1, 2)], (1, 6, 8, 2), None, ""),
        (CODES.MEAN, [(1, 2)], (1, 3), None, "SpatialMean"),
        (CODES.MEAN, [(1, 3)], (1, 3), None, ""),
        (CODES.MEAN, [(1, 2)], (1, 1, 1, 3), None, ""),
    ],
)
def test_only_half_pixel_resizing_first_channels_and_means_over_the_map_are_known(
    tmp_path: Path,
    code: int,
    constants: list[tuple[int, ...]],
    shape: tuple[int, ...],
    options: tuple[bool, bool] | None,
    op: str,
) -> None:
    maker, resizing = TfliteMaker(), schema.ResizeBilinearOptionsT()
    if options:
        resizing.halfPixelCenters, resizing.alignCorners = options
    inputs = [0, *(maker.constant(np.array(each, np.int32)) for each in constants)]
    out = maker.operator(code, inputs, shape, resizing if options else None)
    if op:
        assert maker.read(tmp_path, out).nodes == [Node(op, [0], [out])]
        return
    with pytest.raises(WeightsError, match=r"only .* known"):
        maker.read(tmp_path, out)


def test_pads_joins_and_blocks_keep_their_numbers(tmp_path: Path) -> None:
    maker = TfliteMaker()
    pads = maker.constant(np.arange(8, dtype=np.int32).reshape(4, 2))
    padded = maker.operator(CODES.PAD, [0, pads], (1, 6, 8, 3))
    concat, blocks = schema.ConcatenationOptionsT(), schema.DepthToSpaceOptionsT()
    concat.axis, blocks.blockSize = -1, 2
    joined = maker.operator(CODES.CONCATENATION, [0, padded], (1, 6, 8, 6), concat)
    spread = maker.operator(CODES.DEPTH_TO_SPACE, [joined], (1, 12, 16, 1), blocks)
    pad, join, spreading = maker.read(tmp_path, spread).nodes
    assert (pad.op, pad.inputs, pad.options["pads"].tolist()) == (
        "Pad", [0], [[0, 1], [2, 3], [4, 5], [6, 7]]
    )  # fmt: skip
    assert join == Node("Concat", [0, padded], [joined], {"axis": 3})
    assert spreading == Node("DepthToSpace", [joined], [spread], {"block": 2})


def test_half_precision_becomes_single(tmp_path: Path) -> None:
    maker = TfliteMaker()
    half = maker.constant(np.array([[1.5, -2.25]], np.float16))
    out = maker.operator(CODES.DEQUANTIZE, [half], (1, 2))
    graph = maker.read(tmp_path, out)
    assert graph.nodes == []
    assert graph.constants[out].dtype == np.float32
    np.testing.assert_array_equal(graph.constants[out], [[1.5, -2.25]])


def small_graph() -> Graph:
    """0 -> a -> 1 -> b -> 2, and 1 -> c -> 3, with a constant 4 for c."""
    nodes = [Node("a", [0], [1]), Node("b", [1], [2]), Node("c", [1, 4], [3])]
    constants: dict[int, Any] = {4: np.ones(2)}
    return Graph(nodes, constants, dict.fromkeys(range(5), (1, 2)), [0], {"left": 2, "right": 3})


def test_who_makes_and_who_reads_a_tensor() -> None:
    graph = small_graph()
    assert graph.producer(3) is graph.nodes[2]
    assert graph.producer(0) is graph.producer(4) is None
    assert graph.consumers(1) == graph.nodes[1:]
    assert graph.consumers(3) == []


def test_a_new_tensor_has_a_number_of_its_own() -> None:
    graph, value = small_graph(), np.zeros(3)
    assert graph.new_tensor((3,)) == 5
    assert graph.new_tensor((3,), value) == 6
    assert graph.constants[6] is value
    assert 5 not in graph.constants
    assert graph.shapes[6] == (3,)
