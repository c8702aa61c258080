"""TensorFlow graphs as ONNX Runtime computes them, against numpy; readers of their files.

The published files were held against TensorFlow.js 4.22 itself, on its plain CPU backend, with a
real picture: the maps differ by at most 2e-6 (heat, centre) and 3e-6 of their range (the others,
and NanoDet's).
"""

import base64
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from posemill.errors import WeightsError
from posemill.weights.tensorflow_graph import (
    CHANNELS_FIRST,
    Picture,
    TensorFlowGraph,
    TensorFlowNode,
    Value,
    export_graph,
)
from posemill.weights.tfjs_graph import read_tfjs_graph

RNG = np.random.default_rng(3)
PIXELS = RNG.integers(0, 256, (2, 6, 6, 3), np.uint8)
FLOATS = PIXELS.astype(np.float32)
WINDOW = {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NHWC"}
SURROUND = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
LAST, FIRST = np.array([0, 2, 3, 1]), np.array([0, 3, 1, 2])


def node(name, op, *inputs, **attributes):
    return TensorFlowNode(name, op, inputs, attributes)


def run(
    nodes, constants, *, start = None,
    picture = None,
):  # fmt: skip
    """Return the last node's values, channels first, for two pictures of 6 x 6."""
    graph = TensorFlowGraph(Path("small.json"), nodes, constants)
    model = export_graph(
        graph, start=start or Value("in"), outputs=[nodes[-1].name], picture=picture or Picture(6)
    )
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"pixels": PIXELS})[0]


def convolve(values, weights, stride=1):
    """Return what TensorFlow's VALID convolution is, channels last."""
    side = weights.shape[0]
    windows = np.lib.stride_tricks.sliding_window_view(values, (side, side), axis=(1, 2))
    return np.einsum("bhwcij,ijco->bhwo", windows[:, ::stride, ::stride], weights, optimize=True)


def first(values):
    return values.transpose(0, 3, 1, 2)


def test_a_fused_convolution_pads_evenly_adds_and_cuts_off():
    weights = RNG.normal(0, 0.01, (3, 3, 3, 4)).astype(np.float32)
    bias = RNG.normal(size=4).astype(np.float32)
    found = run(
        [node("out", "_FusedConv2D", "in", "w", "b", **{**WINDOW, "padding": "SAME",
              "strides": [1, 2, 2, 1], "fused_ops": ["BiasAdd", "Relu6"]})],
        {"w": weights, "b": bias},
    )  # fmt: skip
    # SAME of an even size with stride 2: one more row below and to the right.
    padded = np.pad(FLOATS, ((0, 0), (0, 1), (0, 1), (0, 0)))
    expected = np.clip(convolve(padded, weights, 2) + bias, 0, 6)
    np.testing.assert_allclose(found, first(expected), atol=1e-4)


@pytest.mark.parametrize("op", ["DepthwiseConv2dNative", "FusedDepthwiseConv2dNative"])
def test_a_depthwise_convolution_keeps_channels_apart(op):
    weights = RNG.normal(0, 0.01, (3, 3, 3, 1)).astype(np.float32)
    found = run([node("out", op, "in", "w", **WINDOW)], {"w": weights})
    expected = np.concatenate(
        [convolve(FLOATS[..., [c]], weights[:, :, [c]]) for c in range(3)], axis=-1
    )
    np.testing.assert_allclose(found, first(expected), atol=1e-4)


def test_reordered_padded_and_joined_maps_are_those_of_numpy():
    """As NanoDet is: maps with channels first, every window between two transposes."""
    weights = RNG.normal(0, 0.01, (3, 3, 3, 2)).astype(np.float32)
    bias = np.array([0.5, -0.5], np.float32)
    nodes = [
        node("pad", "Pad", "in", "around"),
        node("last", "Transpose", "pad", "to_last"),
        node("conv", "Conv2D", "last", "w", **WINDOW),
        node("sum", "Add", "conv", "b"),
        node("first", "Transpose", "sum", "to_first"),
        node("leaky", "LeakyRelu", "first", alpha=0.1),
        node("wide", "PadV2", "leaky", "around", "least"),
        node("wide_last", "Transpose", "wide", "to_last"),
        node("most", "MaxPool", "wide_last", **{**WINDOW, "ksize": [1, 3, 3, 1]}),
        node("most_first", "Transpose", "most", "to_first"),
        node("both", "ConcatV2", "leaky", "most_first", "axis"),
        node("out", "Sigmoid", "both"),
    ]
    found = run(
        nodes,
        {"around": SURROUND, "to_last": LAST, "to_first": FIRST, "w": weights, "b": bias,
         "least": np.float32(-np.inf), "axis": np.int32(1)},
        start=Value("in", CHANNELS_FIRST),
        picture=Picture(6, (0.01, 0.02, 0.03), (-1.0, 0.0, 1.0)),
    )  # fmt: skip
    scaled = FLOATS * np.array([0.01, 0.02, 0.03], np.float32) + np.array([-1, 0, 1], np.float32)
    padded = np.pad(scaled, ((0, 0), (1, 1), (1, 1), (0, 0)))
    values = first(convolve(padded, weights) + bias)
    leaky = np.where(values < 0, 0.1 * values, values)
    wide = np.pad(leaky, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    most = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3)).max((-1, -2))
    expected = 1 / (1 + np.exp(-np.concatenate([leaky, most], axis=1)))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_arithmetic_with_constants_stretches_them_as_tensorflow_does():
    mask = RNG.random((6, 6, 1)).astype(np.float32)
    found = run(
        [node("less", "Sub", "in", "grey"), node("part", "Mul", "less", "mask"),
         node("twice", "AddV2", "part", "part"), node("out", "Identity", "twice")],
        {"grey": np.array([1, 2, 3], np.float32), "mask": mask},
    )  # fmt: skip
    np.testing.assert_allclose(found, first(2 * (FLOATS - [1, 2, 3]) * mask), atol=1e-3)


def test_a_map_is_enlarged_by_the_centres_of_its_pixels():
    options = {"half_pixel_centers": True, "align_corners": False}
    found = run([node("out", "ResizeBilinear", "in", "size", **options)],
                {"size": np.array([12, 12])})  # fmt: skip
    places = np.clip((np.arange(12) + 0.5) / 2 - 0.5, 0, 5)
    low = np.minimum(places.astype(int), 4)
    share = (places - low).astype(np.float32)
    rows = FLOATS[:, low] * (1 - share)[:, None, None] + FLOATS[:, low + 1] * share[:, None, None]
    expected = rows[:, :, low] * (1 - share)[:, None] + rows[:, :, low + 1] * share[:, None]
    np.testing.assert_allclose(found, first(expected), atol=1e-3)


def test_only_what_the_outputs_need_is_converted():
    nodes = [node("odd", "Softplus", "in"), node("out", "Relu", "in"),
             node("later", "GatherNd", "out")]  # fmt: skip
    graph = TensorFlowGraph(Path("small.json"), nodes, {})
    assert export_graph(graph, start=Value("in"), outputs=["out"], picture=Picture(6))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node("odd", "Softplus", "in"), "operator Softplus at odd is not one this converter knows"),
        (node("odd", "Conv2D", "in", "w", **{**WINDOW, "dilations": [1, 2, 2, 1]}), "dilated"),
        (node("odd", "Conv2D", "in", "w", **{**WINDOW, "padding": "EXPLICIT"}), "padding EXPLICIT"),
        (node("odd", "Conv2D", "in", "w", **{**WINDOW, "data_format": "NCHW"}), "not last"),
        (node("odd", "Conv2D", "in", "in", **WINDOW), "expected in to be a constant"),
        (node("odd", "_FusedConv2D", "in", "w", "w", **WINDOW, fused_ops=["BiasAdd", "Elu"]),
         "fused with BiasAdd, Elu"),
        (node("odd", "DepthwiseConv2dNative", "in", "w", **WINDOW), "more than one output"),
        (node("odd", "Pad", "in", "around"), "of the batch or of channels"),
        (node("odd", "ResizeBilinear", "in", "w", align_corners=True), "not by the centres"),
        (node("odd", "Relu", "nowhere"), "there is no node nowhere"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_an_error_that_names_the_operator(wrong, message):
    constants = {"w": np.zeros((1, 1, 3, 2), np.float32), "around": SURROUND}
    with pytest.raises(WeightsError, match=rf"small\.json: .*{message}"):
        run([wrong], constants)


def test_padding_is_done_by_a_window_and_maps_in_different_order_are_not_mixed():
    around = {"around": SURROUND[[0, 2, 3, 1]], "w": np.zeros((1, 1, 3, 2), np.float32)}
    padded = node("pad", "Pad", "in", "around")
    with pytest.raises(WeightsError, match=r"Relu at out .*after padding that no window does"):
        run([padded, node("out", "Relu", "pad")], around)
    with pytest.raises(WeightsError, match=r"MaxPool at out .*padding of another kind"):
        run([padded, node("out", "MaxPool", "pad", **WINDOW, ksize=[1, 2, 2, 1])], around)
    turned = node("turned", "Transpose", "in", "order")
    constants = {"order": FIRST, "axis": np.int32(1)}
    for mixed in (node("out", "Add", "in", "turned"), node("out", "ConcatV2", "in", "turned",
                                                            "axis")):  # fmt: skip
        with pytest.raises(WeightsError, match="of tensors in different order"):
            run([turned, mixed], constants)
    with pytest.raises(WeightsError, match="a is read before it is computed"):
        run([node("b", "Relu", "a"), node("a", "Relu", "in"), node("out", "Add", "a", "b")], {})


@pytest.fixture
def tfjs_files(tmp_path):
    """A TensorFlow.js model of one convolution, its weights in half precision."""
    weights = (np.arange(6) / 4).astype(np.float16)
    word = {"s": base64.b64encode(b"VALID").decode()}
    content = {
        "modelTopology": {"node": [
            {"name": "in", "op": "Placeholder", "attr": {"shape": {"shape": {}}}},
            {"name": "w", "op": "Const", "attr": {"value": {"tensor": {}}}},
            {"name": "out", "op": "_FusedConv2D", "input": ["in", "w"], "attr": {
                "padding": word, "strides": {"list": {"i": ["1", "1", "1", "1"]}},
                "fused_ops": {"list": {}}, "num_args": {"i": "0"}, "epsilon": {"f": 0.5}}},
        ]},
        "weightsManifest": [{"weights": [
            {"name": "w", "shape": [1, 1, 3, 2], "dtype": "float32",
             "quantization": {"dtype": "float16", "original_dtype": "float32"}},
            {"name": "size", "shape": [2], "dtype": "int32"},
        ]}],
    }  # fmt: skip
    paths = tmp_path / "net.json", tmp_path / "net.bin"
    paths[0].write_text(json.dumps(content))
    paths[1].write_bytes(weights.tobytes() + np.array([5, 7], np.int32).tobytes())
    return paths


def test_a_tfjs_model_is_read_with_its_weights(tfjs_files):
    graph = read_tfjs_graph(*tfjs_files)
    assert [each.op for each in graph.nodes] == ["Placeholder", "_FusedConv2D"]
    assert graph.nodes[1].attributes == {
        "padding": "VALID", "strides": [1, 1, 1, 1], "fused_ops": [], "num_args": 0, "epsilon": 0.5,
    }  # fmt: skip
    assert graph.constants["w"].dtype == np.float32
    np.testing.assert_array_equal(graph.constants["w"].ravel(), np.arange(6) / 4)
    assert graph.constants["size"].tolist() == [5, 7]
    found = run(graph.nodes, graph.constants)
    np.testing.assert_allclose(found, first(FLOATS @ graph.constants["w"][0, 0]), atol=1e-4)


def test_a_tfjs_model_that_is_not_whole_is_named(tfjs_files):
    description, weights = tfjs_files
    whole = weights.read_bytes()
    for data in (whole[:-1], whole + b"x"):
        weights.write_bytes(data)
        with pytest.raises(WeightsError, match=r"net\.json with net\.bin is not a whole"):
            read_tfjs_graph(description, weights)
    weights.write_bytes(whole)
    text = description.read_text()
    packed = text.replace('"dtype": "float16"', '"dtype": "float16", "scale": 2')
    for other in (text[:100], "[]", text.replace("modelTopology", "other"), packed):
        description.write_text(other)
        with pytest.raises(WeightsError, match="is not a whole TensorFlow"):
            read_tfjs_graph(description, weights)


@pytest.mark.parametrize("name", ["movenet-thunder", "movenet-lightning", "nanodet"])
def test_the_published_files_are_whole_graphs(name, need_model):
    graph = read_tfjs_graph(need_model(name), need_model(f"{name}-weights"))
    assert len(graph.nodes) == {"nanodet": 260}.get(name, 151)
