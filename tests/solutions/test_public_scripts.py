"""Scripts as people publish them for MediaPipe, with one name changed, print what stock prints.

What mediapipe 0.10.21 printed on the same files is in the .txt beside each. A script that needs a
picture of the shared material names it in a line `# seen: …`.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_with_another_import_prints_what_stock_prints(
    script, model_files, media, tmp_path, request, monkeypatch, capsys
):
    if "google.protobuf" in script.read_text():
        pytest.importorskip("google.protobuf")
    if script.stem == "plot":
        pytest.importorskip("matplotlib")
    text = script.read_text()
    assert "mediapipe" in text
    changed = tmp_path / script.name
    changed.write_text(
        text.replace("import mediapipe", "import posemill").replace(
            "from mediapipe", "from posemill"
        )
    )
    named = re.search("^# seen: (.*)$", text, re.MULTILINE)
    if named:
        seen = request.getfixturevalue("shared") / named[1]
    else:
        seen = media("carphone" if script.stem == "video_loop" else "astronaut")
    monkeypatch.setattr(sys, "argv", [str(changed), str(seen)])
    runpy.run_path(str(changed))
    assert capsys.readouterr().out == script.with_suffix(".txt").read_text()
