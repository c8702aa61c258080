"""Unrelated pictures are not tracked: said, recorded, kept, and overruled by the user."""

import json
import os

import cv2
import numpy as np
import pytest
from cli_runner import CliRunner

from posemill.clips.inputs import ClipInput
from posemill.commands.line import run_line
from posemill.errors import RunError
from posemill.jobs.extract.run import extract
from posemill.jobs.landmarks import choose_mode
from posemill.runs.reader import open_run
from posemill.sources import find_clips


@pytest.fixture
def photographs(tmp_path):
    """`train/frames` with pictures that have nothing to do with each other."""
    folder = tmp_path / "data" / "train" / "frames"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for index in range(12):
        blots = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"{index}.png"), cv2.resize(blots, (32, 24)))
    return tmp_path / "data"


def points_of(folder):
    return open_run(folder).to_numpy()["points"]


def test_unrelated_photographs_are_not_tracked_unless_asked(photographs, config_for, tmp_path):
    for name, changes in {"auto": {}, "pictures": {"layout": "pictures"}, "frames":
                          {"layout": "frames"}, "video": {"mode": "video"}}.items():  # fmt: skip
        extract(config_for(photographs, name, **changes))
    np.testing.assert_array_equal(points_of(tmp_path / "auto"), points_of(tmp_path / "pictures"))
    np.testing.assert_array_equal(points_of(tmp_path / "frames"), points_of(tmp_path / "video"))
    assert not np.array_equal(points_of(tmp_path / "auto"), points_of(tmp_path / "video"))
    assert open_run(tmp_path / "auto").manifest.extraction["mode"] == "image"


def test_what_was_decided_is_recorded_and_kept_whatever_pictures_say_later(
    photographs, config_for, tmp_path
):
    plans = []
    extract(config_for(photographs), on_plan=lambda clips, _: plans.append(clips.tracking))
    record = json.loads((tmp_path / "run" / "manifest.json").read_text())["source"]["tracking"]
    assert record["alone"] == [["train", "frames"]]
    assert record["reasons"] == {"neighbours are not alike": 1}
    for path in (photographs / "train" / "frames").iterdir():
        before = path.stat()
        alike = cv2.imencode(path.suffix, np.full((24, 32, 3), 100, np.uint8))[1].tobytes()
        path.write_bytes(alike.ljust(before.st_size, b"\0"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # else the source has changed
    extract(config_for(photographs), on_plan=lambda clips, _: plans.append(clips.tracking))
    assert plans[1] == plans[0]


def test_the_plan_says_it_and_a_dry_run_too(photographs, tmp_path):
    line = "12 pictures stand alone; 1 folder: neighbours are not alike (by a look at 1 of 1"
    command = ["extract", str(photographs), "--out", str(tmp_path / "run"), "--engine", "fake"]
    for more in (["--dry-run"], [], ["--dry-run"]):
        result = CliRunner().invoke(run_line, [*command, "--executor", "serial", *more])
        assert result.exit_code == 0
        assert line in result.stderr
    said = CliRunner().invoke(run_line, [*command, "--mode", "image", "--dry-run"])
    assert line not in said.stderr


def test_a_tree_of_both_kinds_is_predicted_clip_by_clip_and_not_interpolated(
    photographs, make_tree, config_for, tmp_path
):
    make_tree({"train/walk": 6}, "data")
    run = open_run(extract(config_for(photographs)).folder)
    assert run.manifest.extraction["mode"] == "auto"
    assert choose_mode(photographs / "train" / "frames", "fake") == (
        "image", "neighbours are not alike"
    )  # fmt: skip
    assert choose_mode(photographs / "train" / "walk", "fake")[0] == "video"
    assert ClipInput(tmp_path / "run").has_loose_pictures


def test_a_decision_that_is_damaged_is_an_error_that_says_so(photographs, config_for, tmp_path):
    extract(config_for(photographs))
    path = tmp_path / "run" / "manifest.json"
    content = json.loads(path.read_text())
    content["source"]["tracking"] = {"alone": 3}
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="'tracking' is not what posemill writes"):
        extract(config_for(photographs), clips=find_clips(photographs))
