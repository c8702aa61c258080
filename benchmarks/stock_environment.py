"""A side environment with stock MediaPipe 0.10.21 and pose-format, which do not go with ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".bench" / "mediapipe-0.10.21"
PACKAGES = ["mediapipe==0.10.21", "pose-format==0.15.0", "tqdm"]


def stock_python() -> Path:
    """Return the Python of the side environment, made at the first call (a gigabyte)."""
    python = FOLDER / "bin" / "python"
    ready = FOLDER / ".ready"
    if not ready.exists():
        print(f"making {FOLDER} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        ready.touch()
    return python
