import sys
from importlib.util import find_spec

import numpy as np
import pytest

from posemill.errors import ConfigError, MissingExtraError
from posemill.estimators import runtimes as runtime
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.runtimes import choose_runtime, open_network
from posemill.estimators.runtimes.litert_network import LiteRTNetwork


def hide(monkeypatch, *packages):
    """Make packages look as if they were not installed."""
    monkeypatch.setattr(
        runtime, "find_spec", lambda name: None if name in packages else find_spec(name)
    )


@pytest.mark.parametrize(
    ("asked", "device", "chosen"),
    [
        ("auto", "cpu", "litert"),
        ("auto", "cuda:1", "onnxruntime"),
        ("auto", "tensorrt:0", "onnxruntime"),
        ("onnxruntime", "cpu", "onnxruntime"),
        ("litert", "cpu", "litert"),
    ],
)
def test_a_cpu_gets_litert_and_a_gpu_onnxruntime(asked, device, chosen):
    assert choose_runtime(asked, device) == chosen


def test_where_litert_is_not_installed_onnxruntime_takes_its_place(monkeypatch):
    hide(monkeypatch, "ai_edge_litert")
    assert choose_runtime("auto", "cpu") == "onnxruntime"
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(MissingExtraError, match=r"needs the package ai-edge-litert .* run: pip i"):
        LiteRTNetwork("hand_recrop")


def test_without_any_runtime_the_one_that_is_made_for_the_system_is_asked_for(monkeypatch):
    hide(monkeypatch, "ai_edge_litert", "onnxruntime")
    assert choose_runtime("auto", "cpu") == "litert"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert choose_runtime("auto", "cpu") == "onnxruntime"
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"run: pip install 'posemill\[onnx\]'$"):
        HolisticEstimator()
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(MissingExtraError, match=r"none for Macs with Intel .*'posemill\[onnx\]'$"):
        LiteRTNetwork("hand_recrop")


def test_an_engine_on_another_runtime_than_usual_says_so_once(model_files, monkeypatch, capsys):
    runtime.tell_that_litert_is_missing.cache_clear()
    HolisticEstimator(runtime="onnxruntime").close()
    assert capsys.readouterr().err == ""
    hide(monkeypatch, "ai_edge_litert")
    for _ in range(2):
        HolisticEstimator().close()
    said = capsys.readouterr().err
    assert said.startswith("posemill: ai-edge-litert is not installed, the networks run on ONNX R")
    assert said.count("\n") == 1


def test_an_unknown_runtime_is_named_with_those_there_are():
    with pytest.raises(ConfigError, match="'tvm'; known: auto, litert, onnxruntime"):
        choose_runtime("tvm", "cpu")


@pytest.mark.parametrize("kind", ["onnxruntime", "openvino"])
def test_all_runtimes_give_outputs_of_the_same_shapes_and_nearly_the_same_values(
    model_files, photo, kind
):
    pytest.importorskip(kind)
    for name in model_files:
        usual, other = (
            open_network(name, runtime=each, device="cpu", threads=1) for each in ("litert", kind)
        )
        size = usual.size
        assert other.size == size
        pixels = np.ascontiguousarray(photo[None, 60 : 60 + size, 90 : 90 + size])
        for ours, theirs in zip(usual.run(pixels), other.run(pixels), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, atol=1e-4 * max(1, np.abs(theirs).max()))
