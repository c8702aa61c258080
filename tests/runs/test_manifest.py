import dataclasses
import json
import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.errors import RunError
from posemill.runs.manifest import Manifest, check_folder, current_versions, extraction_of

MANIFEST = Manifest(
    "holistic-143", kind="import", options={"mode": "video", "steps": [1, 2]},
    engine={"engine": "fake"}, source={"path": "videos"}, versions={"posemill": "1"},
    created_at="2026-01-01T00:00:00+00:00",
)  # fmt: skip


def test_a_manifest_comes_back_as_it_was(tmp_path):
    MANIFEST.write(tmp_path)
    assert Manifest.read(tmp_path) == MANIFEST
    text = (tmp_path / "manifest.json").read_text()
    assert json.loads(text)["posemill_run"] == 1
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    # By default: its skeleton is needed and nothing else.
    (tmp_path / "manifest.json").write_text('{"posemill_run": 1, "skeleton_name": "coco-133"}')
    found = Manifest.read(tmp_path)
    assert (found.skeleton_name, found.kind) == ("coco-133", "extract")
    assert (found.options, found.engine, found.source) == ({}, {}, {})
    written = datetime.fromisoformat(found.created_at)
    assert (written.utcoffset(), written.microsecond) == (timedelta(0), 0)
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=5)


def test_every_setting_that_decides_the_result_is_compared():
    other = dataclasses.replace(
        MANIFEST, skeleton_name="holistic-543", options={"mode": "image", "steps": [1, 2]},
        engine={}, source={"path": "videos", "layout": "list"},
    )  # fmt: skip
    assert MANIFEST.differences(other) == [
        "skeleton_name: the run has 'holistic-143', now it is 'holistic-543'",
        "mode: the run has 'video', now it is 'image'",
        "engine: the run has 'fake', now it is none",
        "layout: the run has none, now it is 'list'",
    ]
    # What does not decide it may differ; lists and tuples are the same in JSON.
    same = {"kind": "x", "versions": {}, "created_at": "later"}
    tuples = {"mode": "video", "steps": (1, 2)}
    assert MANIFEST.differences(dataclasses.replace(MANIFEST, **same, options=tuples)) == []


def test_versions_are_those_that_are_installed():
    versions = current_versions()
    names = "numpy opencv-python-headless av ai-edge-litert onnxruntime onnxruntime-gpu pyarrow"
    assert list(versions) == ["posemill", "python", *names.split()]
    known = (posemill.__version__, platform.python_version(), np.__version__)
    assert tuple(versions[name] for name in ("posemill", "python", "numpy")) == known
    assert "not installed" in (versions["onnxruntime"], versions["onnxruntime-gpu"])


def test_a_folder_is_new_a_run_or_somebody_elses(tmp_path, monkeypatch):
    assert not check_folder(tmp_path / "none")
    assert not check_folder(tmp_path)
    (tmp_path / "lock").touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / ".manifest.json.123.tmp").touch()  # of a start that was killed
    assert not check_folder(tmp_path)
    (tmp_path / "file0").touch()
    with pytest.raises(RunError, match=r"\(it holds 'file0'\); nothing was touched"):
        check_folder(tmp_path)
    MANIFEST.write(tmp_path)
    assert check_folder(tmp_path)
    with pytest.raises(RunError, match="is a file; a run needs a folder of its own"):
        check_folder(tmp_path / "file0")
    (tmp_path / "new").mkdir()
    look = Path.exists  # and behind it another process writes its manifest
    monkeypatch.setattr(Path, "exists", lambda path: look(path) or MANIFEST.write(path.parent))
    assert not check_folder(tmp_path / "new")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Expecting property name"), ("[" * 100_000, "nested too deep"), ("[]", "integer"),
        ({"posemill_run": None}, "run format None, expected 1"), ({"posemill_run": 2}, "format 2"),
        ({"colour": "blue"}, "'colour'"), ('{"posemill_run": 1, "kind": "x"}', "'skeleton_name'"),
        ({"skeleton_name": 3}, "skeleton_name"), ({"kind": None}, "kind"),
        ({"created_at": 1}, "created_at"), ({"run_id": 2}, "run_id"), ({"options": []}, "options"),
        ({"engine": "fake"}, "engine"), ({"source": 1}, "source"), ({"versions": []}, "versions"),
    ],
)  # fmt: skip
def test_a_manifest_that_is_not_ours_is_refused(content, said, tmp_path):
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    is_change = isinstance(content, dict)
    path.write_text(json.dumps(json.loads(path.read_text()) | content) if is_change else content)
    refused = (
        rf"not the manifest of a posemill run, or of one by another version \(.*{said}.*\); use"
    )
    with pytest.raises(RunError, match=refused):
        Manifest.read(tmp_path)


OPTIONS = {"engine": "holistic", "engine_options": {"x": 1}, "mode": "image", "decoder": "pyav"}


def test_how_keypoints_were_found_is_in_the_options_also_of_a_merged_run():
    assert extraction_of({"kind": "extract", "options": OPTIONS}) == OPTIONS
    nothing = {"kind": "extract", "options": None, "source": None, "engine": None}
    for facts in ({}, {"kind": "extract"}, nothing, {"kind": "merge", "options": OPTIONS}):
        assert extraction_of(facts) == {}
    one = {"manifest": {"kind": "extract", "options": OPTIONS}}
    other = {"manifest": {"kind": "extract", "options": {**OPTIONS, "mode": "video"}}}
    for inputs, found in (([one, one], OPTIONS), ([one, other], {}), ([one, {}], {}), ([], {})):
        assert extraction_of({"kind": "merge", "source": {"inputs": inputs}}) == found


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ({}, "video"),
        ({"layout": "pictures"}, "image"),
        ({"layout": "frames"}, "video"),
        ({"tracking": {}, "layout": "pictures"}, "video"),
        ({"tracking": {"num_tracked": 2, "num_alone": 0}}, "video"),
        ({"tracking": {"num_tracked": 0, "num_alone": 3}}, "image"),
        ({"tracking": {"num_tracked": 2, "num_alone": 3}}, "auto"),
    ],
)
def test_the_mode_auto_is_what_it_came_to(source, mode):
    options = {**OPTIONS, "mode": "auto"}
    found = Manifest("coco-133", options=options, source=source).extraction
    assert found == {**OPTIONS, "mode": mode}
