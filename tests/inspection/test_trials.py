"""`posemill doctor` on a machine that refuses instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TRAP = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n"
needs_onnxruntime = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="onnxruntime is not installed"
)


@needs_onnxruntime
def test_doctor_survives_a_library_that_traps_and_says_which(tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "onnxruntime.py").write_text(TRAP)
    own = {"PYTHONPATH": str(tmp_path / "path"), "POSEMILL_CACHE": str(tmp_path / "cache"),
           "ONEDNN_MAX_CPU_ISA": "", "OMP_NUM_THREADS": "1"}  # fmt: skip
    command = [sys.executable, "-m", "posemill", "doctor"]
    ended = subprocess.run(
        [*command, "--json"], env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    tried = found["tried"]
    reason = "illegal instruction (SIGILL)"
    assert tried["onnxruntime"] == {"works": False, "reason": reason, "seconds": {}}
    assert tried["litert"]["works"]
    assert tried["opencv"]["seconds"]["a picture"] > 0
    (problem,) = found["problems"]
    assert problem.startswith(f"onnxruntime was tried on this machine and failed: {reason}. ")
    assert "engine_options={'runtime': 'litert'}" in problem
    if "bf16" in tried:
        assert set(tried["bf16"]["seconds"]) == {"fp32", "bf16"}
    # The second start tries nothing again, and shows the same in words.
    for kept in (tmp_path / "cache" / "trials").iterdir():
        kept.write_text(kept.read_text().replace("illegal", "kept: illegal"))
    shown = subprocess.run(
        command, env={**os.environ, **own}, capture_output=True, text=True, check=False
    ).stdout
    assert f"FAILS: kept: {reason}" in shown
    assert "tried opencv" in shown
