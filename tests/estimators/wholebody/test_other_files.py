"""Files beside SimCC networks as ONNX: TFLite, YOLO-pose, and both on OpenVINO."""

import cv2
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from benchmarks.keypoints.against_rtmlib import people_of
from benchmarks.shared.pose_networks import (
    OnnxGraph,
    make_pictures,
    write_detector,
    write_fixed,
    write_one_stage,
)
from posemill.errors import ConfigError, WeightsError
from posemill.estimators import open_estimator
from posemill.estimators.runtimes.sessions import open_session

WIDTH, HEIGHT, POINTS = 12, 16, 17
PICTURES = make_pictures([(60, 90), (40, 30)])


def write_simcc_pair(folder):
    """Write the same network of two matrices as .onnx, channels first, and as .tflite."""
    rng = np.random.default_rng(0)
    num_values = WIDTH * HEIGHT * 3
    sizes = {"x": 2 * WIDTH, "y": 2 * HEIGHT}
    weights = {
        axis: rng.normal(0, 0.05, (POINTS * size, num_values)).astype(np.float32)
        for axis, size in sizes.items()
    }
    graph = OnnxGraph(0)
    flat = graph.add("Transpose", "input", perm=[0, 2, 3, 1])
    flat = graph.add("Reshape", flat, graph.constant([1, num_values]))
    for axis, size in sizes.items():
        product = graph.add("MatMul", flat, graph.constant(weights[axis].T, np.float32))
        graph.add("Reshape", product, graph.constant([1, POINTS, size]), to=f"simcc_{axis}")
    outputs = {f"simcc_{axis}": [1, POINTS, size] for axis, size in sizes.items()}
    graph.write(folder / "pose.onnx", [1, 3, HEIGHT, WIDTH], outputs)
    (folder / "pose.tflite").write_bytes(_tflite_of(weights, sizes))
    return str(folder / "pose.onnx"), str(folder / "pose.tflite")


def _tflite_of(weights, sizes):
    from ai_edge_litert.schema_py_generated import BuiltinOperator, FullyConnectedOptionsT
    from made_up_networks import TfliteMaker

    maker = TfliteMaker((1, HEIGHT, WIDTH, 3), "input")
    flat, outputs = maker.reshape(0, (1, WIDTH * HEIGHT * 3)), []
    for axis, size in sizes.items():
        inputs = [flat, maker.constant(weights[axis]), -1]
        product = maker.operator(
            BuiltinOperator.FULLY_CONNECTED, inputs, (1, POINTS * size), FullyConnectedOptionsT()
        )
        outputs.append(maker.reshape(product, (1, POINTS, size)))
    return maker.to_bytes(*outputs)


def test_a_tflite_file_gives_what_its_onnx_twin_gives(tmp_path):
    onnx_file, tflite_file = write_simcc_pair(tmp_path)
    expected = open_estimator("wholebody", pose=onnx_file).estimate(PICTURES)
    assert np.isfinite(expected.points).any()
    for options in ({"pose": tflite_file}, {"pose": tflite_file, "runtime": "openvino"},
                    {"pose": onnx_file, "runtime": "openvino"}):  # fmt: skip
        if "runtime" in options:
            pytest.importorskip("openvino")
        engine = open_estimator("wholebody", **options)
        found = engine.estimate(PICTURES)
        np.testing.assert_allclose(found.points, expected.points, atol=1e-6)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
        assert engine.identity()["runtime"].split()[0] == options.get("runtime", "litert")


def test_files_that_do_not_go_together_and_a_broken_one_are_refused(tmp_path):
    _, tflite_file = write_simcc_pair(tmp_path)
    with pytest.raises(ConfigError):
        open_estimator("wholebody", pose=tflite_file, runtime="onnxruntime")
    # It finds people itself.
    one_stage = str(write_one_stage(tmp_path / "rtmo.onnx"))
    detector = str(write_detector(tmp_path / "detector.onnx"))
    with pytest.raises(ConfigError):
        open_estimator("wholebody", pose=one_stage, detector=detector)
    (tmp_path / "broken.tflite").write_bytes(b"no network")
    with pytest.raises(WeightsError):
        open_estimator("wholebody", pose=str(tmp_path / "broken.tflite"))


def test_people_of_yolo_pose_are_chosen_among_its_cells(tmp_path):
    path = str(write_one_stage(tmp_path / "yolo.onnx", "yolo", cells=100))
    (picture,) = make_pictures([(300, 200)])
    found = people_of(open_estimator("wholebody", pose=path).estimate([picture]), 0)
    # By hand: 300 x 200 into 128 x 96 is 128 x 85, six rows of padding above.
    canvas = np.full((96, 128, 3), 114, np.uint8)
    canvas[5:90] = cv2.resize(picture, (128, 85))
    values = canvas.transpose(2, 0, 1)[None].astype(np.float32) / 255
    (rows,) = open_session(path, path, device="cpu", threads=1).run(values)
    cells = rows[0].T
    points = (cells[cells[:, 4].argmax()][5:].reshape(-1, 3)[:, :2] - [0, 5]) / (128 / 300)
    assert 1 < len(found) < (cells[:, 4] > 0.25).sum()
    assert min(np.abs(person - points).max() for person, _ in found) < 1e-2


def test_people_that_a_yolo_file_has_chosen_itself_are_all_there_are(tmp_path):
    rows = np.tile(np.float32([8, 16, 40, 48, 0.9, 0, *[32, 24, 0.7] * POINTS]), (3, 1))[None]
    rows[0, 1, 6:8] = 16, 40  # in the same box as the first
    rows[0, 2, 4] = 0.2
    path = str(write_fixed(tmp_path / "chosen.onnx", {"output0": rows}, [1, 3, 64, 64]))
    found = open_estimator("wholebody", pose=path).estimate([np.zeros((90, 120, 3), np.uint8)])
    points = np.stack([points[0] for points, _ in people_of(found, 0)])
    # 120 x 90 into 64 x 64 is 64 x 48, eight rows of padding above.
    np.testing.assert_allclose(points, [[30, 60], [60, 30]], atol=1e-4)
