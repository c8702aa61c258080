"""ONNX models written node by node: what the converters of TFLite and TensorFlow graphs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import MissingExtraError

INPUT_NAME = "pixels"
OPSET = 17
Sizes = Sequence[int | str]


class OnnxWriter:
    """Collects ONNX nodes and constants."""

    def __init__(self) -> None:
        try:
            import onnx
        except ModuleNotFoundError as error:
            # Not an extra of ours: beside onnxruntime-gpu the wrong one would do harm.
            raise MissingExtraError(
                "the networks are converted for ONNX Runtime once, and that needs {name!r}; run: "
                "pip install onnx",
                name=error.name,
            ) from error
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._count = 0

    def emit(
        self,
        op: str,
        inputs: list[str],
        output: str | None = None,
        *,
        activation: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node, and its activation; return the output's name, a new one unless given."""
        if activation:
            return self.activate(self.emit(op, inputs, **attributes), activation, output)
        if output is None:
            self._count += 1
            output = f"v{self._count}"
        self._nodes.append(self._onnx.helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, value: npt.ArrayLike) -> str:
        """Add a constant and return its name."""
        self._count += 1
        name = f"c{self._count}"
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self._initializers.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def activate(self, name: str, activation: str, output: str | None = None) -> str:
        """Add what follows a node (Relu, Relu6) and return its output's name."""
        if activation == "Relu":
            return self.emit("Relu", [name], output)
        if activation == "Relu6":
            low, high = self.constant(np.float32(0)), self.constant(np.float32(6))
            return self.emit("Clip", [name, low, high], output)
        raise ValueError(f"unknown activation {activation!r}")

    def pixels(self, factor: npt.ArrayLike, offset: npt.ArrayLike) -> str:
        """Add what turns the input, bytes, into `factor * byte + offset`; return its name."""
        name = self.emit("Cast", [INPUT_NAME], to=self._onnx.TensorProto.FLOAT)
        if np.any(np.asarray(factor) != 1):
            name = self.emit("Mul", [name, self.constant(np.asarray(factor, np.float32))])
        if np.any(offset):
            name = self.emit("Add", [name, self.constant(np.asarray(offset, np.float32))])
        return name

    def model(
        self,
        name: str,
        inputs: Mapping[str, Sizes],
        outputs: Mapping[str, Sizes],
        *,
        is_bytes: bool,
    ) -> bytes:
        """Return the serialised model.

        Args:
            name: For people who open the file.
            inputs: Their sizes, by name.
            outputs: Their sizes, by name.
            is_bytes: The inputs are bytes, not numbers.
        """
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        kind = kinds.UINT8 if is_bytes else kinds.FLOAT
        graph = helper.make_graph(
            self._nodes,
            name,
            [
                helper.make_tensor_value_info(key, kind, list(sizes))
                for key, sizes in inputs.items()
            ],
            [
                helper.make_tensor_value_info(key, kinds.FLOAT, list(sizes))
                for key, sizes in outputs.items()
            ],
            initializer=self._initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        self._onnx.checker.check_model(model)
        data: bytes = model.SerializeToString()
        return data
