"""How far a run is: sums over splits, the speed of the last minute, and the file that says it."""

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
    # Frames of videos whose length nobody knows make no share above all.
    assert Progress(COUNTS[:1], {"train": 57}).describe() == "100/100 frames (100.0%), " + FAILED
    assert Progress(COUNTS[:1], {"train": 78}).describe() == "121 frames, " + FAILED


@pytest.mark.parametrize(
    ("frames", "clips", "text"),
    [(0, 0, "0 failed"), (1, 0, "1 failed"), (3, 0, "3 failed"), (0, 1, "1 clip failed"),
     (0, 2, "2 clips failed"), (1, 1, "1 frame and 1 clip failed"),
     (3, 2, "3 frames and 2 clips failed")],
)  # fmt: skip
def test_what_failed_in_words(frames, clips, text):
    assert failed_text(frames, clips) == text


@pytest.mark.parametrize(
    "looks",
    [
        # It needs a second and a frame.
        [(100, 5, None), (100.75, 9, None), (101, 9, 4), (102, 13, 4), (104, 29, 6)],
        # A run that stands still has none.
        [(0, 5, None), (10, 5, None), (11, 4, None), (12, 6, 1 / 12)],
        # 0.125 seconds later the number of before still counts, 0.25 seconds later the new one.
        [(0, 0, None), (2, 10, 5), (2.125, 17, 5), (2.25, 18, 8)],
        # The last minute, but two looks however old they are: a slow run has a speed too.
        [(0, 0, None), (30, 300, 10), (60, 360, 6), (61, 362, 2), (300, 600, 238 / 239)],
    ],
)
def test_a_speed_is_that_of_the_last_minute(monkeypatch, looks):
    speedometer = Speedometer()
    for seconds, frames, speed in looks:
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: seconds)
        assert speedometer.see(frames) == (speed and pytest.approx(speed))


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
    # Written over by a shorter one, as is what a killed process left.
    (tmp_path / ".live.json.tmp").write_text("x" * 5000)
    write_live(tmp_path, Progress(()).to_json())
    assert read_live(tmp_path)["done_by_split"] == {}
    # A folder that cannot be written stops nothing.
    write_live(tmp_path / "gone", {})
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "3", "[" * 100_000])
def test_what_is_not_there_or_not_ours_says_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / LIVE_NAME).write_text(text)
    assert read_live(tmp_path) == {}
