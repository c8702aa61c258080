"""Scripts as people publish them for MediaPipe, with one name changed, print what stock prints.

What mediapipe 0.10.21 printed on the same files is in the .txt beside each. A script that needs a
picture of the shared material names it in a line `# seen: …`.
"""

import re
import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def rounded(text):
    """Text with its numbers to five digits: the last bits depend on the processor."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.5f}", text)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_with_another_import_prints_what_stock_prints(
    script, model_files, need_model, media, tmp_path, request, monkeypatch, capsys
):
    text = script.read_text()
    for package in ("google.protobuf", "matplotlib"):
        if package in text:
            pytest.importorskip(package)
    if "refine_" in text:
        need_model("face_landmark_with_attention")
    assert "mediapipe" in text
    changed = tmp_path / script.name
    changed.write_text(re.sub("(import|from) mediapipe", r"\1 posemill", text))
    if named := re.search("^# seen: (.*)$", text, re.MULTILINE):
        seen = request.getfixturevalue("shared") / named[1]
    else:
        seen = media("carphone" if script.stem == "video_loop" else "astronaut")
    monkeypatch.setattr(sys, "argv", [str(changed), str(seen)])
    runpy.run_path(str(changed))
    expected, found = script.with_suffix(".txt").read_text(), capsys.readouterr().out
    if script.stem == "holistic_row":  # it prints raw floats
        expected, found = rounded(expected), rounded(found)
    assert found == expected
