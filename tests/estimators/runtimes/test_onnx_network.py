"""Networks on ONNX Runtime: the device that is asked for, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from posemill.errors import DeviceError, WeightsError
from posemill.estimators.runtimes import onnx_network
from posemill.estimators.runtimes.onnx_network import OnnxNetwork

GPUS = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu:0", "tensorrt:-1"])
def test_another_device_is_refused(model_files, device):
    with pytest.raises(DeviceError, match=f"unknown device '{device}'; expected cpu, cuda:N or t"):
        OnnxNetwork("hand_recrop", device=device)


def test_a_cpu_runs_one_crop_at_a_time_on_threads_that_do_not_spin(model_files):
    network = OnnxNetwork("hand_recrop", threads=2)
    options = network._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)
    assert options.log_severity_level == 3
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert not network.runs_batches
    assert network.size == 256
    assert network._session.get_inputs()[0].shape[0] == 1
    (output,) = network.run(np.zeros((1, 256, 256, 3), np.uint8))
    assert output.dtype == np.float32


class ElsewhereSession:
    """A session that ONNX Runtime put on another device than the one that was asked for."""

    asked: Any = None

    def __init__(self, model, options, providers):
        type(self).asked = providers

    def get_providers(self):
        return ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("device", "provider", "options"),
    [
        ("cuda", "CUDAExecutionProvider", {"device_id": 0, "cudnn_conv_algo_search": "HEURISTIC"}),
        (
            "cuda:3",
            "CUDAExecutionProvider",
            {"device_id": 3, "cudnn_conv_algo_search": "HEURISTIC"},
        ),
        ("tensorrt:12", "TensorrtExecutionProvider", {"device_id": 12}),
    ],
)
def test_a_device_has_its_provider_and_a_network_that_came_to_another_is_an_error(
    model_files, monkeypatch, device, provider, options
):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: GPUS)
    monkeypatch.setattr(onnxruntime, "InferenceSession", ElsewhereSession)
    message = f"asked for {device}, but ONNX Runtime put hand_recrop on C"
    with pytest.raises(DeviceError, match=message):
        OnnxNetwork("hand_recrop", device=device)
    assert ElsewhereSession.asked == [(provider, options)]


def test_a_graph_that_cannot_be_loaded_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(onnx_network, "load_onnx", lambda name: b"no graph")
    with pytest.raises(WeightsError, match=r"load hand_recrop \(.+\); delete the folder `on"):
        OnnxNetwork("hand_recrop")


@pytest.mark.parametrize(
    ("device", "said", "kind", "message"),
    [
        ("cpu", " bad graph\nline 2", WeightsError, r"load hand_recrop \(bad graph\); delete"),
        ("cuda:0", "\n", DeviceError, "Runtime cannot use cuda:0 for hand_recrop: RuntimeError$"),
        ("cuda:0", "no memory\n", DeviceError, "use cuda:0 for hand_recrop: no memory$"),
    ],
)
def test_the_reason_is_the_first_line_of_what_onnx_runtime_says(
    model_files, monkeypatch, device, said, kind, message
):
    def fail(*_, **__):
        raise RuntimeError(said)

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: GPUS)
    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    with pytest.raises(kind, match=message):
        OnnxNetwork("hand_recrop", device=device)
