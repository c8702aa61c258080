"""`posemill demo`, as a new user runs it: the real engine on a real clip, twice."""

import cv2
import pytest
from cli_runner import CliRunner

from posemill import open_run, view
from posemill.commands.line import run_line


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a demo that ran once, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    result = CliRunner().invoke(run_line, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.fixture
def folder(demo):
    return demo[0]


def test_clips_and_pictures_have_keypoints_of_every_frame_and_a_row_of_the_table(folder):
    run = open_run(folder / "run")
    assert run.is_finished
    assert run.failures() == []
    sizes = {clip.clip_id: len(clip) for clip in run.clips()}
    assert sizes == {"carphone": 30, "jumper": 45, "astronaut": 1}
    shown = view(folder / "keypoints.csv", detailed=True, progress=False)["clips"]
    parts = {clip["clip_id"]: clip["parts"] for clip in shown}
    assert list(parts) == ["carphone", "jumper", "astronaut"]
    for name in ("carphone", "astronaut"):
        assert parts[name]["pose"]["presence"] == parts[name]["face"]["presence"] == 1
    jumper = {name: part["presence"] for name, part in parts["jumper"].items()}
    assert jumper["pose"] > 0.9
    assert jumper["left_hand"] > 0.3 < jumper["right_hand"]


def test_the_pictures_that_are_named_exist_and_show_something(demo):
    named = [line for line in demo[1].splitlines() if line.endswith(".png")]
    assert len(named) == 9
    for path in named:
        picture = cv2.imread(path)
        assert picture.std() > 10


def test_a_second_run_does_nothing_again_and_says_the_same(folder):
    shards = {path: path.stat().st_mtime_ns for path in (folder / "run" / "shards").iterdir()}
    table = (folder / "keypoints.csv").read_text()
    result = CliRunner().invoke(run_line, ["demo", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"$ posemill extract {folder}/clips.csv --out {folder}/run" in result.stdout
    after = {path: path.stat().st_mtime_ns for path in (folder / "run" / "shards").iterdir()}
    assert after == shards
    assert (folder / "keypoints.csv").read_text() == table
