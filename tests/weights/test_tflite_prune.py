"""TFLite files without the operators that only unwanted outputs need."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from made_up_networks import TfliteMaker

from posemill.errors import WeightsError
from posemill.weights.tflite_prune import prune

# name -> (operator, inputs): a chain with two branches, the outputs in another order
CHAIN = {"a": ("ABS", ["in"]), "b": ("NEG", ["a"]), "c": ("EXP", ["in"]), "d": ("NEG", ["c"])}


def chain(*outputs):
    """Return a model of four operators on four numbers."""
    maker, numbers = TfliteMaker((4,), "in"), {"in": 0}
    for name, (code, inputs) in CHAIN.items():
        operator = getattr(schema.BuiltinOperator, code)
        numbers[name] = maker.operator(
            operator, [numbers[each] for each in inputs], (4,), name=name
        )
    return maker.to_bytes(*(numbers[name] for name in outputs))


def results(model):
    """Return the outputs for -1, 0, 1, 2, and the operators that made them."""
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    start = interpreter.get_input_details()[0]["index"]
    interpreter.set_tensor(start, np.array([-1, 0, 1, 2], np.float32))
    interpreter.invoke()
    outputs = {each["name"]: interpreter.get_tensor(each["index"]).tolist()
               for each in interpreter.get_output_details()}  # fmt: skip
    return outputs, [each["op_name"] for each in interpreter._get_ops_details()]


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
def test_what_is_left_is_computed_as_before(wanted, operators):
    whole = chain("d", "a", "b", "c")
    pruned = prune(whole, wanted)
    assert len(pruned) == len(whole)
    outputs, left = results(pruned)
    everything, _ = results(whole)
    assert outputs == {name: everything[name] for name in everything if name in wanted}
    assert list(outputs) == [name for name in "dabc" if name in wanted]  # their order stays
    assert left == operators
    assert everything["b"] == [-1, 0, -1, -2]


def test_a_piece_begins_and_ends_inside_of_the_model():
    assert results(prune(chain("d"), ["b"], start="a")) == ({"b": [1, 0, -1, -2]}, ["NEG"])
    assert results(prune(chain("d"), ["a"])) == ({"a": [1, 0, 1, 2]}, ["ABS"])
    with pytest.raises(WeightsError, match=r"no output \['z'\]; there are \['d'\]"):
        prune(chain("d"), ["b"], start="z")
    with pytest.raises(WeightsError, match=r"no output \['x', 'y'\]; there are \['a', 'd'\]"):
        prune(chain("d", "a"), ["y", "a", "x"])
