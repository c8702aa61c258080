"""Rewritten TFLite files: scalings in two roundings, and quicker masks with the same bits."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from posemill.estimators.runtimes.litert_rewrites import rewrite
from posemill.weights.networks import load_tflite
from posemill.weights.tflite_graph import read_graph
from posemill.weights.tflite_prune import prune


def run(model, pixels):
    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], pixels)
    interpreter.invoke()
    # of several outputs the widest: a mask
    widest = max(interpreter.get_output_details(), key=lambda output: output["shape"][1:3].prod())
    return interpreter.get_tensor(widest["index"])


def operators(model):
    interpreter = Interpreter(model_content=model)
    return [each["op_name"] for each in interpreter._get_ops_details()]


def test_product_and_sum_are_rounded_one_after_the_other(model_files):
    path = model_files["hand_recrop"]
    pixels = np.random.default_rng(3).random((1, 256, 256, 3), np.float32)
    before = run(prune(path.read_bytes(), ["p_re_lu"]), pixels)
    graph = read_graph(path, ["batch_normalization"])
    _, weights, bias = (graph.constants.get(number) for number in graph.nodes[-1].inputs)
    assert bias is not None
    expected = before * weights.reshape(-1) + bias
    found = run(
        rewrite(prune(path.read_bytes(), ["batch_normalization"]), splits_scalings=True), pixels
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "size_hw"),
    [
        ("selfie_segmentation", (256, 256)),
        ("selfie_segmentation_landscape", (144, 256)),
        ("pose_landmark_lite_with_mask", (256, 256)),
    ],
)
def test_masks_keep_their_bits(name, size_hw, model_files):
    data = load_tflite(name)
    rewritten = rewrite(data, splits_scalings=False)
    assert operators(rewritten).count("DEPTH_TO_SPACE") == 1
    assert "DEPTH_TO_SPACE" not in operators(data)
    pixels = np.random.default_rng(3).random((1, *size_hw, 3), np.float32)
    mask = run(data, pixels)
    assert mask.shape[1:3] == size_hw
    np.testing.assert_array_equal(run(rewritten, pixels), mask)


def test_a_file_without_such_operators_stays_as_it_is(model_files):
    data = load_tflite("face_landmark")
    assert rewrite(data, splits_scalings=False) is data
