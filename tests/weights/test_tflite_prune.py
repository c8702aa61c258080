"""TFLite files without the operators that only unwanted outputs need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from posemill.errors import WeightsError
from posemill.weights.networks import NETWORKS, load_tflite
from posemill.weights.tflite_prune import prune

# name -> (operator, inputs): a chain with two branches, the outputs in another order
CHAIN = {"a": ("ABS", ["in"]), "b": ("NEG", ["a"]), "c": ("EXP", ["in"]), "d": ("NEG", ["c"])}


def chain(*outputs: str) -> bytes:
    """Return a model of four operators on four numbers."""
    names, model, graph = ["in", *CHAIN], schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    model.operatorCodes, graph.tensors, graph.operators = [], [], []
    for name in names:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, [4], 0
        graph.tensors.append(tensor)
    for name, (code, inputs) in CHAIN.items():
        entry, operator = schema.OperatorCodeT(), schema.OperatorT()
        entry.builtinCode = entry.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, code)
        operator.opcodeIndex = len(model.operatorCodes)
        operator.inputs = [names.index(each) for each in inputs]
        operator.outputs = [names.index(name)]
        model.operatorCodes.append(entry)
        graph.operators.append(operator)
    graph.inputs, graph.outputs = [0], [names.index(name) for name in outputs]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def results(model: bytes) -> tuple[dict[str, list[float]], list[str]]:
    """Return the outputs for -1, 0, 1, 2, and the operators that made them."""
    interpreter: Any = Interpreter(
        model_content=model, experimental_op_resolver_type=_without_delegates()
    )
    interpreter.allocate_tensors()
    start = interpreter.get_input_details()[0]["index"]
    interpreter.set_tensor(start, np.array([-1, 0, 1, 2], np.float32))
    interpreter.invoke()
    outputs = {each["name"]: interpreter.get_tensor(each["index"]).tolist()
               for each in interpreter.get_output_details()}  # fmt: skip
    return outputs, [each["op_name"] for each in interpreter._get_ops_details()]


def _without_delegates() -> Any:
    from ai_edge_litert.interpreter import OpResolverType

    return OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


@pytest.mark.parametrize(
    ("wanted", "operators"),
    [
        (["b"], ["ABS", "NEG"]),
        (["d"], ["EXP", "NEG"]),
        (["c"], ["EXP"]),
        (["a", "d"], ["ABS", "EXP", "NEG"]),
        (["a", "b", "c", "d"], ["ABS", "NEG", "EXP", "NEG"]),
    ],
)
def test_what_is_left_is_computed_as_before(wanted: list[str], operators: list[str]) -> None:
    whole = chain("d", "a", "b", "c")
    pruned = prune(whole, wanted)
    assert len(pruned) == len(whole)
    outputs, left = results(pruned)
    everything, _ = results(whole)
    assert outputs == {name: everything[name] for name in everything if name in wanted}
    assert list(outputs) == [name for name in "dabc" if name in wanted]  # their order stays
    assert left == operators
    assert everything["b"] == [-1, 0, -1, -2]


def test_a_piece_begins_and_ends_inside_of_the_model() -> None:
    assert results(prune(chain("d"), ["b"], start="a")) == ({"b": [1, 0, -1, -2]}, ["NEG"])
    assert results(prune(chain("d"), ["a"])) == ({"a": [1, 0, 1, 2]}, ["ABS"])
    with pytest.raises(WeightsError, match=r"no output \['z'\]; there are \['d'\]"):
        prune(chain("d"), ["b"], start="z")


def test_all_outputs_that_are_not_there_are_named() -> None:
    with pytest.raises(WeightsError, match=r"no output \['x', 'y'\]; there are \['a', 'd'\]"):
        prune(chain("d", "a"), ["y", "a", "x"])


def test_a_pruned_network_has_no_other_outputs_and_fewer_operators(
    model_files: dict[str, Path],
) -> None:
    whole = Interpreter(model_path=str(model_files["pose_landmark_full"]))
    pruned = Interpreter(model_content=load_tflite("pose_landmark_full"))
    names = [output["name"] for output in pruned.get_output_details()]
    assert sorted(names) == sorted(NETWORKS["pose_landmark_full"].outputs)
    assert len(pruned._get_ops_details()) <= len(whole._get_ops_details()) - 40
