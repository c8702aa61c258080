"""A whole script for MediaPipe, with one name changed, says and draws what stock says and draws."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

import posemill

HERE = Path(__file__).parent
# Of the pixels that mediapipe 0.10.21 drew; what it printed is in old_script.txt.
PIXELS = "8524d6465238fd9a46ac1595cd567cc9672db20f80238702abebd63555cf8471"


def rounded(text: str) -> str:
    """Text with its numbers to five digits: the last bits depend on the processor."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.5f}", text)


def test_an_old_script_with_another_import_gives_what_stock_gives(need_model, photo, tmp_path):
    need_model("face_landmark_with_attention")
    pytest.importorskip("google.protobuf")
    script = (HERE / "old_script.py").read_text()
    assert script.count("mediapipe") == 3
    (tmp_path / "script.py").write_text(script.replace("mediapipe", "posemill"))
    cv2.imwrite(str(tmp_path / "photo.png"), photo[..., ::-1])
    source = str(Path(posemill.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "script.py", "photo.png", "drawn.png"], cwd=tmp_path, check=False,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert rounded(ran.stdout) == rounded((HERE / "old_script.txt").read_text())
    drawn = cv2.imread(str(tmp_path / "drawn.png"))
    assert hashlib.sha256(drawn).hexdigest() == PIXELS
