"""What could run an engine here: ONNX Runtime's providers, and the GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from importlib import metadata
from typing import Any

from posemill.errors import MissingExtraError
from posemill.messages import Message

# They install the same module: the plain one, where both are, hides the one for GPUs.
_ONNX_RUNTIMES = ("onnxruntime", "onnxruntime-gpu")


def import_onnxruntime(device: str = "cpu") -> Any:
    """Return the module of ONNX Runtime; what lacks for the device is said with the pip line."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        extra = "onnx" if device == "cpu" else "gpu"
        raise MissingExtraError(
            "runtime=onnxruntime (device {device}) needs {name!r}; run: pip install "
            "'posemill[{extra}]'",
            device=device,
            name=error.name,
            extra=extra,
        ) from error
    return onnxruntime


def list_onnx_runtimes() -> list[str]:
    """Return which packages of ONNX Runtime are installed; two of them are one too many."""
    installed = []
    for name in _ONNX_RUNTIMES:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        installed.append(name)
    return installed


def say_how_to_use_gpus(installed: list[str]) -> str:
    """Return why ONNX Runtime cannot use a GPU here, and what to run.

    Args:
        installed: What `list_onnx_runtimes` found.
    """
    if len(installed) > 1:
        return Message(
            "{installed} are both installed, and the plain one hides the one for GPUs; run: pip "
            "uninstall {names}, then: pip install 'posemill[gpu]'",
            installed=" and ".join(installed),
            names=" ".join(installed),
        )
    if installed == ["onnxruntime"]:
        return Message(
            "onnxruntime is for the CPU only; run: pip uninstall onnxruntime, then: pip install "
            "'posemill[gpu]'"
        )
    if installed:
        return Message("check the NVIDIA driver and the CUDA libraries")
    return Message("ONNX Runtime is not installed; run: pip install 'posemill[gpu]'")


def list_providers() -> list[str]:
    """Return the execution providers of the installed ONNX Runtime, best first."""
    return [str(name) for name in import_onnxruntime().get_available_providers()]


def list_gpus() -> list[str]:
    """Return the names of the NVIDIA GPUs, as the driver lists them; empty without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if result.returncode:
        return []
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
