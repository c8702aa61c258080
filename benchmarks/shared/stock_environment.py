"""A side environment with stock MediaPipe 0.10.21 and pose-format, which do not go with ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.shared.measuring import not_here

FOLDER = Path(__file__).parents[2] / ".bench" / "mediapipe-0.10.21"
PACKAGES = ["mediapipe==0.10.21", "pose-format==0.15.0", "tqdm"]


def stock_python() -> Path:
    """Return the Python of the side environment, made at the first call (a gigabyte)."""
    python = FOLDER / "bin" / "python"
    ready = FOLDER / ".ready"
    if not ready.exists():
        print(f"making {FOLDER} …", file=sys.stderr)
        for command in (
            [sys.executable, "-m", "venv", str(FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
        ):
            if subprocess.run(command).returncode:
                not_here(f"stock MediaPipe could not be installed; run: {' '.join(command)}")
        ready.touch()
    return python
