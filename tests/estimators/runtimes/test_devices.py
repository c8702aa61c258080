"""The GPUs and providers of a machine, as the driver and ONNX Runtime tell them."""

import sys
from importlib import metadata

import pytest

from posemill.errors import DeviceError, MissingExtraError
from posemill.estimators import open_estimator
from posemill.estimators.runtimes.devices import list_gpus, list_onnx_runtimes


def test_the_gpus_are_those_the_driver_lists_if_there_is_one_and_it_works(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    tool = tmp_path / "nvidia-smi"
    tool.touch(mode=0o755)
    tool.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034 MiB'\necho 'NVIDIA T4, 15360 MiB'\n")
    assert list_gpus() == ["NVIDIA L4, 23034 MiB", "NVIDIA T4, 15360 MiB"]
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert list_gpus() == []
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list_gpus() == []


@pytest.mark.parametrize(("device", "extra"), [("cpu", "onnx"), ("cuda:1", "gpu")])
def test_a_missing_onnx_runtime_is_one_sentence_with_the_pip_line(device, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    expected = rf"runtime=onnxruntime \(device {device}\) needs 'onnxruntime'; run: pip install "
    with pytest.raises(MissingExtraError, match=rf"^{expected}'posemill\[{extra}\]'$"):
        open_estimator("holistic", runtime="onnxruntime", device=device)


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        (["onnxruntime"], "onnxruntime is for the CPU only; run: pip uninstall onnxruntime, then:"),
        (
            ["onnxruntime", "onnxruntime-gpu"],
            "onnxruntime and onnxruntime-gpu are both installed, and the plain one hides the one "
            "for GPUs; run: pip uninstall onnxruntime onnxruntime-gpu, then: pip install 'posemi",
        ),
        (["onnxruntime-gpu"], "check the NVIDIA driver and the CUDA libraries"),
    ],
)
def test_a_gpu_that_onnx_runtime_cannot_use_is_an_error_that_says_why(
    installed, message, monkeypatch
):
    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return "1.31.1"

    monkeypatch.setattr(metadata, "version", version)
    assert list_onnx_runtimes() == installed
    with pytest.raises(DeviceError, match="device cuda:0 asked for, but ONNX Runtime has") as error:
        open_estimator("holistic", device="cuda:0")
    assert message in str(error.value)
