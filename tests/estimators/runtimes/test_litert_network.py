"""Networks on LiteRT: their numbers, and what LiteRT writes where."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import DeviceError
from posemill.estimators.runtimes import litert_network
from posemill.estimators.runtimes.litert_network import LiteRTNetwork, as_onnx
from posemill.weights.networks import NETWORKS

SOURCES = Path(__file__).parents[3] / "src"
TALKATIVE = """
import os, sys
from posemill.estimators.runtimes import litert_network
real = litert_network.cached_model
def load(*args, **options):
    os.write(2, b"something else\\n")
    return real(*args, **options)
litert_network.cached_model = load
litert_network.LiteRTNetwork("hand_recrop")
litert_network.LiteRTNetwork("face_landmark")
"""


@pytest.mark.parametrize("name", ["hand_recrop", "pose_detection"])
def test_bytes_become_the_values_that_the_network_was_trained_on(
    name: str, model_files: dict[str, Path]
) -> None:
    network = LiteRTNetwork(name)
    low, high = NETWORKS[name].value_range
    assert not network.runs_batches
    assert (network._values[0], network._values.dtype) == (low, np.float32)
    np.testing.assert_allclose(network._values[[51, 255]], [low + (high - low) / 5, high], 1e-6)
    ramp = np.arange(network.size**2 * 3).astype(np.uint8).reshape(1, network.size, -1, 3)
    network.run(ramp)
    np.testing.assert_array_equal(network._input(), network._values[ramp])


@pytest.mark.parametrize(
    ("shape", "shape_out"),
    [
        ((1, 7), (1, 7)),
        ((1, 9, 3), (1, 9, 3)),
        ((1, 1, 1, 5), (1, 5)),
        ((1, 4, 6, 2), (1, 2, 4, 6)),
    ],
)
def test_maps_have_their_channels_first_and_single_pixels_are_rows(
    shape: tuple[int, ...], shape_out: tuple[int, ...]
) -> None:
    assert as_onnx(np.zeros(shape, np.float32)).shape == shape_out


def test_another_device_than_the_cpu_is_refused() -> None:
    with pytest.raises(DeviceError, match="'litert' runs on the cpu only, not on 'cuda:0'"):
        LiteRTNetwork("hand_recrop", device="cuda:0")


def test_the_standard_error_is_watched_only_for_the_first_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(litert_network, "_has_greeted", False)
    before, num_open = os.fstat(2), len([*Path("/proc/self/fd").iterdir()])
    with litert_network._without_greeting():
        assert not os.path.samestat(before, os.fstat(2))
    with litert_network._without_greeting():
        assert os.path.samestat(before, os.fstat(2))
    assert len([*Path("/proc/self/fd").iterdir()]) == num_open


def test_only_the_greeting_is_lost_and_the_order_of_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(litert_network, "_has_greeted", False)
    with open(2, "w", closefd=False) as buffered:
        monkeypatch.setattr(sys, "stderr", buffered)
        buffered.write("before\n")
        with litert_network._without_greeting():
            assert capfd.readouterr().err == "before\n"
            os.write(2, b"native\n" + litert_network._GREETING + b"\nmore\n")
            buffered.write("late\n")
        assert capfd.readouterr().err == "native\nmore\nlate\n"


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
    code += "from posemill.estimators.runtimes.litert_network import LiteRTNetwork\n"
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

    def load(name: str, make: Callable[[], bytes], *, suffix: str) -> bytes:
        seen.append(os.fstat(2))
        return make()

    monkeypatch.setattr(litert_network, "_has_greeted", False)
    monkeypatch.setattr(litert_network, "cached_model", load)
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
