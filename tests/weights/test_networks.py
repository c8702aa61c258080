import sys
from collections.abc import Callable
from functools import cache

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter

from posemill.errors import MissingExtraError, WeightsError
from posemill.files import cache_folder
from posemill.weights import networks
from posemill.weights.networks import NETWORKS, convert, load_onnx, load_tflite
from posemill.weights.onnx_writer import INPUT_NAME
from posemill.weights.pull import ensure_model
from posemill.weights.tflite_graph import read_graph

Run = Callable[[np.ndarray], dict[str, np.ndarray]]


# LiteRT's delegate alone has their last operator.
ON_LITERT_ONLY = ("selfie_segmentation", "selfie_segmentation_landscape")
MASK_TOLERANCE = 1 / 255


@pytest.fixture(params=sorted(set(NETWORKS) - {*ON_LITERT_ONLY}))
def spec(request, need_model):
    found = NETWORKS[request.param]
    need_model(found.model)
    return found


@cache
def converted(name):
    return convert(name)


@cache
def pruned(name):
    return load_tflite(name)


def litert_run(spec, model):
    """Return a TFLite model as LiteRT computes it, one picture at a time."""
    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    picture = interpreter.get_input_details()[0]["index"]
    outputs = {out["name"]: out["index"] for out in interpreter.get_output_details()}
    low, high = spec.value_range

    def run(pixels):
        rows = []
        for one in pixels:
            values = one[None]
            if values.dtype == np.uint8:
                values = values * np.float32((high - low) / 255) + np.float32(low)
            interpreter.set_tensor(picture, values)
            interpreter.invoke()
            rows.append([interpreter.get_tensor(outputs[name])[0].copy() for name in spec.outputs])
        return dict(zip(spec.outputs, map(np.stack, zip(*rows, strict=True)), strict=True))

    return run


def onnx_run(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda pixels: dict(zip(names, session.run(names, {INPUT_NAME: pixels}), strict=True))


def inputs_of(spec, photo):
    """Return noise and a part of a photograph, `(2, size, size, 3)`; features for a piece."""
    rng = np.random.default_rng(7)
    details = Interpreter(model_content=pruned(spec.name)).get_input_details()[0]
    _, size, _, channels = details["shape"]
    if spec.start is not None:
        return rng.normal(0, 1, (2, size, size, channels)).astype(np.float32)
    noise = rng.integers(0, 256, (size, size, 3), np.uint8)
    return np.stack([noise, cv2.resize(photo[:300, :300], (size, size))])


def test_a_converted_and_a_pruned_network_agree_with_litert(spec, photo):
    pixels = inputs_of(spec, photo)
    expected = litert_run(spec, pruned(spec.name))(pixels)
    if not spec.piece:  # LiteRT cannot run the whole of these: that is why they are in pieces
        whole = litert_run(spec, ensure_model(spec.model).read_bytes())(pixels[:1])
        for name in spec.outputs:
            np.testing.assert_array_equal(expected[name][:1], whole[name])
    run = onnx_run(converted(spec.name))
    got = run(pixels)
    assert list(got) == list(spec.outputs)
    for name, values in expected.items():
        if values.ndim == 4 and values.shape[1] > 1:
            values = values.transpose(0, 3, 1, 2)  # maps: channels first
        if spec.name.endswith("_with_mask") and name == "Identity_2":
            # A mask is 0 or 1 where its logit is far from zero.
            masks = [1 / (1 + np.exp(-logits.clip(-50, 50))) for logits in (got[name], values)]
            assert np.abs(masks[0] - masks[1].reshape(masks[0].shape)).max() < MASK_TOLERANCE
            continue
        difference = np.abs(got[name] - values.reshape(got[name].shape))
        # Points are in pixels of the crop: the tolerance is a ten-thousandth of an output's range.
        assert difference.max() < 1e-4 * max(1, np.abs(values).max()), name
    # Rewritten: only pads that add channels are left, and PRelu nowhere.
    nodes = onnx.load_from_string(converted(spec.name)).graph.node
    operators = [node.op_type for node in nodes]
    assert "PRelu" not in operators
    assert operators.count("Pad") == (3 if "heavy" in spec.name else 0)
    if spec.name == "pose_detection":  # convolved before it is enlarged
        enlarged = {node.output[0] for node in nodes if node.op_type == "Resize"}
        assert all(node.op_type == "Clip" for node in nodes if enlarged.intersection(node.input))
    # Rows of a batch do not mix.
    for name, values in run(pixels[1:]).items():
        atol = 1e-5 * max(1, np.abs(values).max())
        np.testing.assert_allclose(got[name][1:], values, atol=atol)


def test_what_a_network_cannot_be_made_of_is_named(need_model, model_files):
    for name in ON_LITERT_ONLY:
        need_model(name)
        message = rf"{name}\.tflite: operator .* is not one this conv"
        with pytest.raises(WeightsError, match=message):
            convert(name)
    with pytest.raises(WeightsError, match=r"no output \['masks'\]; there are \['output_crop'\]"):
        read_graph(model_files["hand_recrop"], ["masks"])
    # A piece may be read where the whole has an operator that is not known.
    path = need_model("face_landmark_with_attention")
    with pytest.raises(WeightsError, match="operator MUL is not one this converter knows"):
        read_graph(path)
    spec = NETWORKS["face_attention_lips"]
    graph = read_graph(path, spec.outputs, start=spec.start)
    assert graph.shapes[graph.inputs[0]] == (1, 16, 16, 32)
    assert len(graph.nodes) == 56


def test_a_network_is_converted_once_and_again_if_its_file_was_damaged(
    model_files, tmp_path, monkeypatch
):
    monkeypatch.setattr(networks, "cache_folder", lambda: tmp_path)
    whole = load_onnx("hand_recrop")
    (cached,) = (tmp_path / "onnx").iterdir()
    assert cached.read_bytes() == whole == convert("hand_recrop")
    for damaged in (whole[:-1], b"!" + whole[1:], b""):
        cached.write_bytes(damaged)
        assert load_onnx("hand_recrop") == whole
        assert [path.read_bytes() for path in (tmp_path / "onnx").iterdir()] == [whole]
    monkeypatch.setattr(networks, "convert", lambda name: pytest.fail("converted again"))
    assert load_onnx("hand_recrop") == whole
    assert networks.cached_model("another", lambda: b"other") == b"other"


def test_a_cache_that_cannot_be_written_is_no_error(model_files, tmp_path, monkeypatch):
    (tmp_path / "onnx").write_text("a file where the folder should be")
    monkeypatch.setattr(networks, "cache_folder", lambda: tmp_path)
    assert load_onnx("hand_recrop").startswith(b"\x08\x08")
    assert cache_folder() != tmp_path


def test_a_conversion_without_onnx_says_what_to_install(model_files, tmp_path, monkeypatch):
    monkeypatch.setattr(networks, "cache_folder", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="once, and that needs 'onnx'; run: pip install on"):
        load_onnx("hand_recrop")
