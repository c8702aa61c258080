"""What an ONNX file of a user's says of itself beyond its inputs and outputs."""

from __future__ import annotations

from pathlib import Path

from posemill.errors import MissingExtraError


def first_convolution_channels(path: Path) -> int | None:
    """Return how many channels the first convolution of an ONNX file takes; None if unknown.

    Args:
        path: A whole file, as one that ONNX Runtime has opened is.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "{path}: to look into it needs 'onnx', which is not installed; run: pip install onnx",
            path=path,
        ) from error
    graph = onnx.load(str(path), load_external_data=False).graph
    shapes = {each.name: list(each.dims) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Conv":
            groups = next((each.i for each in node.attribute if each.name == "group"), 1)
            shape = shapes.get(node.input[1], [])
            return int(shape[1]) * int(groups) if len(shape) > 1 else None
    return None
