"""What could run an engine here: ONNX Runtime's providers, and the GPUs of this machine."""

from __future__ import annotations

import shutil
import subprocess


def list_providers() -> list[str]:
    """Return the execution providers of the installed ONNX Runtime, best first."""
    import onnxruntime

    return [str(name) for name in onnxruntime.get_available_providers()]


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
