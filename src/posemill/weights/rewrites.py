"""Changes to a graph that keep what it computes and make it run faster on ONNX Runtime.

On a CPU, ONNX Runtime runs chains of convolutions, pools and sums in blocks of channels; any other
operator makes it convert the layout and back. So operators that break the chain are expressed by
ones that do not.
"""

from __future__ import annotations

import numpy as np

from posemill.weights.tflite_graph import Array, Graph, Node


def rewrite(graph: Graph) -> None:
    """Apply all rewrites, in place."""
    fold_pads_into_convolutions(graph)
    convolve_before_resizing(graph)
    express_prelu_by_convolutions(graph)
    split_sums_with_padded_channels(graph)


def fold_pads_into_convolutions(graph: Graph) -> None:
    """Let convolutions do the zero padding around the picture that a Pad did before them."""
    for pad in [node for node in graph.nodes if node.op == "Pad"]:
        (_, _), (top, bottom), (left, right), (before, after) = pad.options["pads"].tolist()
        readers = graph.consumers(pad.outputs[0])
        if before or after or any(node.op not in ("Conv", "Depthwise") for node in readers):
            continue
        for node in readers:
            node.inputs[0] = pad.inputs[0]
            own = node.options["pads"]
            node.options["pads"] = tuple(
                a + b for a, b in zip(own, (top, left, bottom, right), strict=True)
            )
        graph.nodes.remove(pad)


def convolve_before_resizing(graph: Graph) -> None:
    """Put a 1x1 convolution before the enlargement it follows: the same sums, a quarter of them.

    Both are linear and bilinear weights add up to one, so the order is free, the bias included; the
    activation stays last.
    """
    for resize in [node for node in graph.nodes if node.op == "Resize"]:
        readers = graph.consumers(resize.outputs[0])
        if len(readers) != 1 or readers[0].op != "Conv":
            continue
        conv = readers[0]
        weights = graph.constants[conv.inputs[1]]
        if weights.shape[1:3] != (1, 1) or weights.shape[0] > weights.shape[3]:
            continue
        small = graph.new_tensor((*graph.shapes[resize.inputs[0]][:3], weights.shape[0]))
        large, activation = conv.outputs[0], conv.options["activation"]
        conv.inputs[0], conv.outputs = resize.inputs[0], [small]
        conv.options = {**conv.options, "activation": ""}
        resize.inputs, resize.outputs = [small], [large]
        position = graph.nodes.index(resize)
        graph.nodes.remove(conv)
        graph.nodes.insert(position, conv)
        if activation:
            raw = graph.new_tensor(graph.shapes[large])
            resize.outputs = [raw]
            graph.nodes.insert(position + 2, Node(activation, [raw], [large]))


def express_prelu_by_convolutions(graph: Graph) -> None:
    """Turn PRelu, and a per-channel scale and bias behind it, into a Relu and two 1x1 depthwise.

    `prelu(z) = slope·z + (1 - slope)·relu(z)`; a following `s·y + b` goes into the two factors.
    """
    for prelu in [node for node in graph.nodes if node.op == "PRelu"]:
        source, output = prelu.inputs[0], prelu.outputs[0]
        slope = graph.constants[prelu.inputs[1]].reshape(-1)
        scale, bias = np.ones_like(slope), np.zeros_like(slope)
        readers = graph.consumers(output)
        if len(readers) == 1 and _is_affine(graph, readers[0]):
            affine = readers[0]
            scale = graph.constants[affine.inputs[1]].reshape(-1)
            bias = graph.constants[affine.inputs[2]]
            output = affine.outputs[0]
            graph.nodes.remove(affine)
        shape = graph.shapes[output]
        positive, linear, rest = (graph.new_tensor(shape) for _ in range(3))
        position = graph.nodes.index(prelu)
        graph.nodes[position : position + 1] = [
            Node("Relu", [source], [positive]),
            _per_channel(graph, positive, rest, (scale * (1 - slope), None)),
            _per_channel(graph, source, linear, (scale * slope, bias)),
            Node("Add", [linear, rest], [output], {"activation": ""}),
        ]


def _is_affine(graph: Graph, node: Node) -> bool:
    return (
        node.op == "Depthwise"
        and graph.constants[node.inputs[1]].shape[1:3] == (1, 1)
        and node.options["strides"] == (1, 1)
        and not node.options["activation"]
    )


def _per_channel(
    graph: Graph, source: int, target: int, affine: tuple[Array, Array | None]
) -> Node:
    """Return a 1x1 depthwise convolution: a factor, and maybe an offset, for each channel."""
    factor, offset = affine
    inputs = [source, graph.new_tensor((1, 1, 1, len(factor)), factor.reshape(1, 1, 1, -1))]
    if offset is not None:
        inputs.append(graph.new_tensor(offset.shape, offset))
    options = {"strides": (1, 1), "pads": (0, 0, 0, 0), "activation": ""}
    return Node("Depthwise", inputs, [target], options)


def split_sums_with_padded_channels(graph: Graph) -> None:
    """Turn `convolution + x padded with empty channels` into two convolutions side by side.

    The first gives the channels x has, and x is added to it; the second gives the others.
    """
    for pad in [node for node in graph.nodes if node.op == "Pad"]:
        if pad.options["pads"][:3].any() or pad.options["pads"][3, 0]:
            continue
        (add,) = graph.consumers(pad.outputs[0])
        other = next(number for number in add.inputs if number != pad.outputs[0])
        conv = graph.producer(other)
        if add.op != "Add" or conv is None or conv.op != "Conv" or conv.options["activation"]:
            continue
        kept = graph.shapes[pad.inputs[0]][3]
        spatial = graph.shapes[other][:3]
        weights, bias = (graph.constants[number] for number in conv.inputs[1:])
        halves = []
        for rows in (slice(kept), slice(kept, None)):
            part = graph.new_tensor((*spatial, len(bias[rows])))
            inputs = [
                conv.inputs[0],
                graph.new_tensor(weights[rows].shape, weights[rows]),
                graph.new_tensor(bias[rows].shape, bias[rows]),
            ]
            halves.append(Node("Conv", inputs, [part], dict(conv.options)))
        summed = graph.new_tensor((*spatial, kept))
        joined = [
            Node("Add", [halves[0].outputs[0], pad.inputs[0]], [summed], {"activation": ""}),
            Node("Concat", [summed, halves[1].outputs[0]], add.outputs, {"axis": 3}),
        ]
        if add.options["activation"]:
            continue
        position = graph.nodes.index(add)
        graph.nodes[position : position + 1] = [*halves, *joined]
        graph.nodes.remove(pad)
        graph.nodes.remove(conv)
