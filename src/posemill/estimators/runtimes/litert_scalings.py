"""A TFLite file whose scalings round as MediaPipe's do: a product, then a sum.

MediaPipe's kernels compute `x·w + b` of a depthwise convolution of one pixel with two roundings;
those of LiteRT 2 have fused it into one. As two operators of their own, both kernels round twice.
"""

from __future__ import annotations

from typing import Any


def split_scalings(data: bytes) -> bytes:
    """Return a TFLite model with each 1x1 depthwise convolution as a product and a sum."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data)
    (graph,) = model.subgraphs
    kinds = [_kind(code) for code in model.operatorCodes]
    product = _add_code(model, schema.BuiltinOperator.MUL, schema.OperatorCodeT())
    total = _add_code(model, schema.BuiltinOperator.ADD, schema.OperatorCodeT())
    operators: list[Any] = []
    for operator in graph.operators:
        is_depthwise = kinds[operator.opcodeIndex] == schema.BuiltinOperator.DEPTHWISE_CONV_2D
        if not is_depthwise or list(graph.tensors[operator.inputs[1]].shape[1:3]) != [1, 1]:
            operators.append(operator)
            continue
        pixels, weights, bias = operator.inputs
        (result,) = operator.outputs
        scaled = schema.TensorT()
        scaled.name = graph.tensors[result].name + b"/scaled"
        scaled.shape, scaled.type = graph.tensors[result].shape, graph.tensors[result].type
        middle = len(graph.tensors)
        graph.tensors.append(scaled)
        multiply, add = schema.OperatorT(), schema.OperatorT()
        multiply.opcodeIndex, add.opcodeIndex = product, total
        multiply.inputs, multiply.outputs = [pixels, weights], [middle]
        add.inputs, add.outputs = [middle, bias], [result]
        multiply.builtinOptionsType = schema.BuiltinOptions.MulOptions
        multiply.builtinOptions = schema.MulOptionsT()
        add.builtinOptionsType = schema.BuiltinOptions.AddOptions
        add.builtinOptions = schema.AddOptionsT()
        operators += [multiply, add]
    graph.operators = operators
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _kind(code: Any) -> int:
    """Return an operator's number; older files have it in another field."""
    return max(int(code.builtinCode), int(code.deprecatedBuiltinCode))


def _add_code(model: Any, number: int, code: Any) -> int:
    """Add a kind of operators to the model, return its index there."""
    code.builtinCode = code.deprecatedBuiltinCode = number
    code.version = 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1
