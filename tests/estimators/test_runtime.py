"""Which runtime runs the networks, and what LiteRT writes where."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import ConfigError, MissingExtraError
from posemill.estimators import litert_network, runtime
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.litert_network import LiteRTNetwork
from posemill.estimators.runtime import choose_runtime, open_network
from posemill.weights.networks import load_tflite

SOURCES = Path(__file__).parent.parent.parent / "src"
TALKATIVE = """
import os, sys
from posemill.estimators import litert_network
real = litert_network.load_tflite
def load(name):
    os.write(2, b"something else\\n")
    return real(name)
litert_network.load_tflite = load
litert_network.LiteRTNetwork("hand_recrop")
litert_network.LiteRTNetwork("face_landmark")
"""


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
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
def test_a_cpu_gets_litert_and_a_gpu_onnxruntime(asked: str, device: str, chosen: str) -> None:
    assert choose_runtime(asked, device) == chosen


def test_where_litert_is_not_installed_onnxruntime_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, "ai_edge_litert")
    assert choose_runtime("auto", "cpu") == "onnxruntime"
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(MissingExtraError, match=r"needs the package ai-edge-litert .* run: pip i"):
        LiteRTNetwork("hand_recrop")


def test_without_any_runtime_the_one_that_is_made_for_the_system_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_an_engine_on_another_runtime_than_usual_says_so_once(
    model_files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runtime.tell_that_litert_is_missing.cache_clear()
    HolisticEstimator(runtime="onnxruntime").close()
    assert capsys.readouterr().err == ""
    hide(monkeypatch, "ai_edge_litert")
    for _ in range(2):
        HolisticEstimator().close()
    said = capsys.readouterr().err
    assert said.startswith("posemill: ai-edge-litert is not installed, the networks run on ONNX R")
    assert said.count("\n") == 1


def test_an_unknown_runtime_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'tvm'; known: auto, litert, onnxruntime"):
        choose_runtime("tvm", "cpu")


def test_both_runtimes_give_outputs_of_the_same_shapes_and_nearly_the_same_values(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    for name in model_files:
        networks = [
            open_network(name, runtime=kind, device="cpu", threads=1) for kind in runtime.RUNTIMES
        ]
        size = networks[0].size
        assert networks[1].size == size
        pixels = np.ascontiguousarray(photo[None, 60 : 60 + size, 90 : 90 + size])
        for ours, theirs in zip(*(network.run(pixels) for network in networks), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, atol=1e-4 * max(1, np.abs(theirs).max()))


def test_the_outputs_of_a_run_are_not_changed_by_the_next(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    network = LiteRTNetwork("hand_recrop")
    first = np.ascontiguousarray(photo[None, :256, :256])
    outputs = network.run(first)
    kept = [output.copy() for output in outputs]
    network.run(np.ascontiguousarray(photo[None, 200:456, 200:456]))
    np.testing.assert_array_equal(outputs[0], kept[0])
    np.testing.assert_array_equal(network.run(first)[0], kept[0])


def test_litert_does_not_greet_on_the_terminal_and_all_else_comes_out(
    model_files: dict[str, Path],
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", TALKATIVE], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert result.stdout == ""
    assert result.stderr == "something else\n" * 2


@pytest.mark.parametrize("stderr", ["None", "open(os.devnull, 'w')"])
def test_a_process_without_a_standard_error_can_run_networks(
    model_files: dict[str, Path], stderr: str
) -> None:
    code = f"import os; os.close(2); import sys; sys.stderr = {stderr}\n"
    code += "from posemill.estimators.litert_network import LiteRTNetwork\n"
    code += "print(LiteRTNetwork('hand_recrop').size)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert result.stdout == "256\n"


def test_a_system_without_a_place_for_files_can_run_networks(
    model_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(litert_network, "_has_greeted", False)
    monkeypatch.setattr(litert_network.tempfile, "TemporaryFile", full)
    assert LiteRTNetwork("hand_recrop").size == 256


def test_a_pull_of_models_at_the_first_use_is_seen_while_it_goes_on(
    model_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def load(name: str) -> bytes:
        seen.append(os.fstat(2))
        return load_tflite(name)

    monkeypatch.setattr(litert_network, "_has_greeted", False)
    monkeypatch.setattr(litert_network, "load_tflite", load)
    LiteRTNetwork("hand_recrop")
    assert os.path.samestat(seen[0], os.fstat(2))


def test_threads_that_open_networks_at_once_leave_the_standard_error_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(litert_network, "_has_greeted", False)
    before, is_in, may_leave = os.fstat(2), threading.Event(), threading.Event()

    def second() -> None:
        with litert_network._without_greeting():
            is_in.set()
            may_leave.wait()

    thread = threading.Thread(target=second)
    with litert_network._without_greeting():
        thread.start()
        # A lock keeps it out until the first is done, which is what this waits for in vain.
        is_in.wait(0.2)
    may_leave.set()
    thread.join()
    assert os.path.samestat(before, os.fstat(2))
