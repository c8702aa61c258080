"""The manifest of a run: written, read, compared; and whose folder it is."""

from __future__ import annotations

import dataclasses
import json
import platform
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.errors import RunError
from posemill.stores.manifest import Manifest, check_folder, current_versions, now_text

MANIFEST = Manifest(
    "holistic-143", kind="import", options={"mode": "video", "steps": [1, 2]},
    engine={"engine": "fake"}, source={"path": "videos"}, versions={"posemill": "1"},
    created_at="2026-01-01T00:00:00+00:00",
)  # fmt: skip


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    assert Manifest.read(tmp_path) == MANIFEST
    text = (tmp_path / "manifest.json").read_text()
    assert json.loads(text)["posemill_run"] == 1
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    for change in ({"posemill_run": 2}, {"colour": "blue"}):
        path.write_text(json.dumps({**content, **change}))
        with pytest.raises(
            RunError, match=r"has run format \d, this posemill reads 1; use the pos"
        ):
            Manifest.read(tmp_path)


def test_every_setting_that_decides_the_result_is_compared() -> None:
    assert MANIFEST.differences(MANIFEST) == []
    others = {
        "skeleton_name": "holistic-543", "options": {"mode": "image", "steps": [1, 2]},
        "engine": {}, "source": {"path": "videos", "layout": "list"},
    }  # fmt: skip
    lines = {
        name: MANIFEST.differences(dataclasses.replace(MANIFEST, **{name: value}))
        for name, value in others.items()
    }
    assert lines == {
        "skeleton_name": ["skeleton_name: the run has 'holistic-143', now it is 'holistic-543'"],
        "options": ["mode: the run has 'video', now it is 'image'"],
        "engine": ["engine: the run has 'fake', now it is None"],
        "source": ["layout: the run has None, now it is 'list'"],
    }
    # what does not decide it may differ
    same = dataclasses.replace(MANIFEST, kind="x", versions={}, created_at="later")
    assert MANIFEST.differences(same) == []
    # lists and tuples are the same in JSON
    tuples = dataclasses.replace(MANIFEST, options={"mode": "video", "steps": (1, 2)})
    assert MANIFEST.differences(tuples) == []


def test_a_run_goes_on_with_a_newer_schema_and_not_with_an_older_one() -> None:
    newer = dataclasses.replace(MANIFEST, schema_version=MANIFEST.schema_version + 1)
    assert MANIFEST.differences(newer) == []
    (line,) = newer.differences(MANIFEST)
    assert line.startswith("schema_version: the run has ")


def test_versions_are_those_that_are_installed() -> None:
    versions = current_versions()
    assert versions["posemill"] == posemill.__version__
    assert versions["python"] == platform.python_version()
    assert versions["numpy"] == np.__version__
    assert "not installed" in versions.values() or "onnxruntime-gpu" in versions


def test_the_time_is_utc_to_the_second() -> None:
    written = datetime.fromisoformat(now_text())
    assert written.utcoffset() == timedelta(0)
    assert written.microsecond == 0
    assert abs(datetime.now(timezone.utc) - written) < timedelta(minutes=5)


def test_a_folder_is_new_a_run_or_somebody_elses(tmp_path: Path) -> None:
    assert not check_folder(tmp_path / "none")
    assert not check_folder(tmp_path)
    (tmp_path / "lock").touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / ".manifest.json.123.tmp").touch()  # of a start that was killed
    assert not check_folder(tmp_path)
    for number in range(3):
        (tmp_path / f"file{number}").touch()
    with pytest.raises(RunError, match=r"\(it holds 'file0', 'file1', 'file2'\); nothing was tou"):
        check_folder(tmp_path)
    (tmp_path / "file3").touch()
    with pytest.raises(RunError, match=r"\(it holds 'file0', 'file1', 'file2' …\); nothing was to"):
        check_folder(tmp_path)
    MANIFEST.write(tmp_path)
    assert check_folder(tmp_path)
    with pytest.raises(RunError, match="is a file; a run needs a folder of its own"):
        check_folder(tmp_path / "file0")
