import numpy as np
import onnxruntime
import pytest

from posemill.weights import rewrites
from posemill.weights.onnx_export import export_onnx
from posemill.weights.onnx_writer import INPUT_NAME
from posemill.weights.tflite_graph import Graph, Node

WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0), "activation": ""}


class GraphMaker:
    """Builds a graph of one picture `(1, 8, 8, 3)`, node by node."""

    def __init__(self):
        self.graph = Graph([], {}, {0: (1, 8, 8, 3)}, [0], {})
        self.rng = np.random.default_rng(3)

    def constant(self, *shape):
        return self.graph.new_tensor(shape, self.rng.normal(size=shape).astype(np.float32))

    def node(self, op, inputs, shape, **options):
        output = self.graph.new_tensor(shape)
        self.graph.nodes.append(Node(op, inputs, [output], options))
        return output

    def conv(self, source, channels, kernel=1, **options):
        _, height, _, depth = self.graph.shapes[source]
        inputs = [source, self.constant(channels, kernel, kernel, depth), self.constant(channels)]
        side = height - kernel + 1
        return self.node("Conv", inputs, (1, side, side, channels), **{**WINDOW, **options})

    def pad(self, first=0, last=2):
        """Add channels of zeros to the picture: five with the three that it has."""
        pads = np.array([[0, 0], [0, 0], [0, 0], [first, last]])
        return self.node("Pad", [0], (1, 8, 8, 5), pads=pads)

    def enlarge(self):
        return self.node("Resize", [0], (1, 16, 16, 3))

    def add(self, inputs, side, channels, activation=""):
        shape = (1, side, side, channels)
        return self.end(self.node("Add", inputs, shape, activation=activation))

    def end(self, tensor):
        self.graph.outputs = {"out": tensor}
        return self.graph


def outputs_of(graph):
    model = export_onnx(graph, value_range=(-1.0, 1.0), name="test")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(5).integers(0, 256, (2, 8, 8, 3), np.uint8)
    (values,) = session.run(["out"], {INPUT_NAME: pixels})
    assert session.get_outputs()[0].shape == ["batch", *values.shape[1:]]
    assert len(values) == 2
    return values


def pad_read_by_another_operator(maker):
    pads = np.array([[0, 0], [1, 1], [1, 1], [0, 0]])
    padded = maker.node("Pad", [0], (1, 10, 10, 3), pads=pads)
    return maker.end(maker.node("Relu", [padded], (1, 10, 10, 3)))


def enlarged_for_two(maker):
    large = maker.enlarge()
    return maker.add([maker.conv(large, 2), maker.conv(large, 2)], 16, 2)


LEFT_ALONE = {
    "channels are added before a convolution": lambda maker: maker.end(maker.conv(maker.pad(), 4)),
    "channels are added in front": lambda maker: maker.add(
        [maker.pad(2, 0), maker.conv(0, 5)], 8, 5
    ),
    "a pad is read by another operator": pad_read_by_another_operator,
    "a sum is activated": lambda maker: maker.add([maker.pad(), maker.conv(0, 5)], 8, 5, "Relu"),
    "what is added is activated": lambda maker: maker.add(
        [maker.pad(), maker.conv(0, 5, activation="Relu")], 8, 5
    ),
    "more channels after enlarging": lambda maker: maker.end(maker.conv(maker.enlarge(), 4)),
    "a window after enlarging": lambda maker: maker.end(maker.conv(maker.enlarge(), 2, kernel=3)),
    "enlarged for two": enlarged_for_two,
}


@pytest.mark.parametrize("build", LEFT_ALONE.values(), ids=list(LEFT_ALONE))
def test_what_a_rewrite_would_change_is_left_as_it_is(build):
    graph = build(GraphMaker())
    before = [(node.op, list(node.inputs), list(node.outputs)) for node in graph.nodes]
    rewrites.rewrite(graph)
    assert [(node.op, node.inputs, node.outputs) for node in graph.nodes] == before


@pytest.mark.parametrize(
    "change", [{"strides": (2, 2)}, {"activation": "Relu"}, {"kernel": 2}, {"op": "Conv"}]
)
def test_prelu_takes_in_only_a_plain_scale_and_bias(change):
    maker = GraphMaker()
    prelu = maker.node("PRelu", [0, maker.constant(1, 1, 3)], (1, 8, 8, 3))
    kernel = int(str(change.get("kernel", 1)))
    op = str(change.get("op", "Depthwise"))
    side = 4 if "strides" in change else 9 - kernel
    shape = (3, kernel, kernel, 3) if op == "Conv" else (1, kernel, kernel, 3)
    inputs = [prelu, maker.constant(*shape), maker.constant(3)]
    options = {**WINDOW, **{key: change[key] for key in WINDOW if key in change}}
    graph = maker.end(maker.node(op, inputs, (1, side, side, 3), **options))
    expected = outputs_of(graph)
    rewrites.express_prelu_by_convolutions(graph)
    assert [node.op for node in graph.nodes] == ["Relu", "Depthwise", "Depthwise", "Add", op]
    np.testing.assert_allclose(outputs_of(graph), expected, atol=1e-5)


@pytest.mark.parametrize(("kernel", "sizes"), [(8, (5,)), (7, (5, 2, 2))])
def test_a_single_pixel_comes_out_as_a_row_and_a_map_channels_first(kernel, sizes):
    maker = GraphMaker()
    assert outputs_of(maker.end(maker.conv(0, 5, kernel))).shape == (2, *sizes)
