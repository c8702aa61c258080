"""How far a run is: sums over splits, the speed of the last minute, and the file that says it."""

from __future__ import annotations

import json
import time

import pytest

from posemill.jobs.extract.status import Progress, failed_text
from posemill.machine.live_files import LIVE_NAME, Speedometer, read_live, write_live
from posemill.runs.queries import SplitCounts

# Split, clips, clips done, frames known, out and failed, clips failed.
COUNTS = (SplitCounts("train", 9, 5, 100, 40, 3, 1), SplitCounts("dev", 4, 2, 20, 7, 2, 1))
FAILED = "3 frames and 1 clip failed"


def test_sums_are_over_all_splits():
    snapshot = Progress(COUNTS, {"train": 10})
    assert snapshot.frames_known == 120
    assert snapshot.done_by_split == {"train": 53, "dev": 9}
    assert snapshot.frames_done == 62
    assert snapshot.frames_failed == 5
    assert snapshot.clips_failed == 2


@pytest.mark.parametrize(
    ("frames", "clips", "text"),
    [(0, 0, "0 failed"), (1, 0, "1 failed"), (3, 0, "3 failed"), (0, 1, "1 clip failed"),
     (0, 2, "2 clips failed"), (1, 1, "1 frame and 1 clip failed"),
     (3, 2, "3 frames and 2 clips failed")],
)  # fmt: skip
def test_what_failed_in_words(frames, clips, text):
    assert failed_text(frames, clips) == text


@pytest.fixture
def see(monkeypatch):
    """Shows a speedometer so many frames at such a time."""
    speedometer = Speedometer()

    def at(seconds, frames):
        monkeypatch.setattr(time, "monotonic", lambda: seconds)
        return speedometer.see(frames)

    return at


def test_a_speed_needs_a_second_and_a_frame(see):
    assert see(100.0, 5) is None
    assert see(100.75, 9) is None
    assert see(101.0, 9) == 4.0
    assert see(102.0, 13) == 4.0
    assert see(104.0, 29) == 6.0


def test_a_run_that_stands_still_has_no_speed(see):
    see(0.0, 5)
    assert see(10.0, 5) is None
    assert see(11.0, 4) is None
    assert see(12.0, 6) == pytest.approx(1 / 12)


def test_what_was_seen_a_moment_ago_is_not_noted_again(see):
    see(0.0, 0)
    assert see(2.0, 10) == 5.0
    # 0.125 seconds later the number of before still counts, 0.25 seconds later the new one.
    assert see(2.125, 17) == 5.0
    assert see(2.25, 18) == 8.0


def test_only_the_last_minute_counts(see):
    see(0.0, 0)
    see(30.0, 300)
    assert see(60.0, 360) == 6.0
    assert see(61.0, 362) == 2.0  # since second 30
    # Two are kept however old they are: a slow run has a speed too.
    assert see(300.0, 600) == pytest.approx(238 / 239)


def test_the_file_of_a_run_says_its_speed(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1234.5)
    write_live(tmp_path, Progress(COUNTS, {"dev": 4}, 2.5, 8.0, 3).to_json())
    assert [path.name for path in tmp_path.iterdir()] == ["live.json"] == [LIVE_NAME]
    live = read_live(tmp_path)
    assert {name: live[name] for name in ("frames_per_second", "seconds_left", "num_workers")} == {
        "frames_per_second": 2.5,
        "seconds_left": 25.6,
        "num_workers": 3,
    }
    assert (live["seconds"], live["written_at"]) == (8.0, 1234.5)
    assert live["done_by_split"] == {"train": 43, "dev": 13}
    assert (live["frames_done"], live["frames_known"]) == (56, 120)
    assert [split["in_flight"] for split in live["splits"]] == [0, 4]
    # Written over by a shorter one.
    write_live(tmp_path, Progress(()).to_json())
    assert read_live(tmp_path)["done_by_split"] == {}


def test_a_longer_leftover_is_cut(tmp_path):
    (tmp_path / ".live.json.tmp").write_text("x" * 5000)
    write_live(tmp_path, Progress(COUNTS).to_json())
    assert json.loads((tmp_path / LIVE_NAME).read_text())["num_workers"] == 0


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path):
    write_live(tmp_path / "gone", {})
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "3", "[" * 100_000])
def test_what_is_not_there_or_not_ours_says_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / LIVE_NAME).write_text(text)
    assert read_live(tmp_path) == {}


def test_frames_of_videos_whose_length_nobody_knows_make_no_share_above_all():
    assert Progress(COUNTS[:1], {"train": 57}).describe() == "100/100 frames (100.0%), " + FAILED
    assert Progress(COUNTS[:1], {"train": 78}).describe() == "121 frames, " + FAILED
