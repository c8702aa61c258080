"""TFLite files written on the spot, operator by operator."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from posemill.weights.tflite_graph import read_graph

TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 2}


class TfliteMaker:
    """Builds a file of one input, which is tensor 0."""

    def __init__(self, shape=(1, 6, 8, 3), name="picture"):
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.subgraphs = 3, [self.graph]
        self.model.operatorCodes, self.model.buffers = [], [schema.BufferT()]
        self.graph.tensors, self.graph.operators = [], []
        self.tensor(name, shape)
        self.graph.inputs = [0]

    def tensor(self, name, shape, value=None):
        """Return the number of a new tensor, with values for a constant."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), 0
        if value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(value.tobytes(), np.uint8)
            tensor.type, tensor.buffer = TYPES[value.dtype], len(self.model.buffers)
            self.model.buffers.append(buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def constant(self, value):
        """Return the number of a new constant; OpenVINO tells them apart by their names."""
        return self.tensor(f"constant{len(self.graph.tensors)}", value.shape, value)

    def operator(self, code, inputs, shape, options=None, *, name=""):
        """Return the number of what a new operator gives."""
        entry = schema.OperatorCodeT()
        entry.builtinCode = entry.deprecatedBuiltinCode = code
        entry.version = 1
        self.model.operatorCodes.append(entry)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        output = self.tensor(name or f"out{operator.opcodeIndex}", shape)
        operator.inputs, operator.outputs = inputs, [output]
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            operator.builtinOptions = options
        self.graph.operators.append(operator)
        return output

    def reshape(self, value, shape):
        """Return the number of the values in another shape."""
        inputs = [value, self.constant(np.array(shape, np.int32))]
        return self.operator(
            schema.BuiltinOperator.RESHAPE, inputs, shape, schema.ReshapeOptionsT()
        )

    def to_bytes(self, *outputs):
        """Return the file."""
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder()
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def read(self, folder, *outputs):
        """Return the file as the converter reads it."""
        path = folder / "small.tflite"
        path.write_bytes(self.to_bytes(*outputs))
        return read_graph(path)
