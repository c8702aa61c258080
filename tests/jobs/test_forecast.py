from types import SimpleNamespace

import pytest

from posemill.config import FramesConfig
from posemill.jobs import forecast as module
from posemill.jobs.forecast import Forecast, forecast, sample_clips
from posemill.records import Clip
from posemill.sources.clip_list import ClipList


def clip_list(*clips):
    return ClipList(clips, "frames", "/data", "whole")


def folders(*lengths):
    return clip_list(*(Clip(f"c{i}", f"/c{i}", "frames", num_frames=n)
                       for i, n in enumerate(lengths)))  # fmt: skip


@pytest.mark.parametrize(
    ("lengths", "budget", "taken"),
    [
        ([1000], 24, [24]),  # of a long one the first frames
        ([20, 20, 20], 24, [20, 8]),  # not less than a few frames
        ([20, 20, 20], 33, [20, 13]),
        ([20, 20, 20], 40, [20, 20]),
        ([7, 7, 7], 10_000, [7, 7, 7]),
        ([0, None, 0], 24, []),  # cannot be read
    ],
)
def test_a_sample_has_about_as_many_frames_as_are_wanted(lengths, budget, taken):
    assert [clip.num_frames for clip in sample_clips(folders(*lengths), budget)] == taken


def test_samples_come_from_all_over_the_source_and_windows_of_long_videos():
    clips = folders(*[10] * 300)
    chosen, again = ([int(clip.clip_id[1:]) for clip in sample_clips(clips, 100)] for _ in range(2))
    assert len(chosen) == len(set(chosen)) == 10
    assert (min(chosen) < 100, max(chosen) > 200, chosen == again) == (True, True, True)
    long = Clip("v", "/v.mp4", "video", num_frames=500, start_seconds=2.0)
    (window,) = sample_clips(clip_list(long), 50)
    assert (window.num_frames, window.start_seconds, window.end_seconds) == (None, 2.0, 4.0)
    short = Clip("v", "/v.mp4", "video", num_frames=50, end_seconds=7.0)
    assert list(sample_clips(clip_list(short), 50)) == [short]


def test_speeds_are_in_proportion_to_the_closest_that_was_measured():
    found = Forecast(3, 7200, 50, {1: 2.0, 4: 6.0}, 1e6, 4)
    rows = list(found.rows())
    assert [row[3] for row in rows[:4]] == [2.0, 4.0, 6.0, 12.0]
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 32]
    assert rows[0] == (1, 1.0, 7.2, 2.0, "measured")
    assert (rows[1][4], rows[3][4]) == ("in proportion", "in proportion; this machine has 4 cores")
    assert [row[0] for row in Forecast(1, 1, 1, {1: 1.0}, 1.0, 64).rows()][-1] == 64


@pytest.mark.parametrize("job", ["extract", "frames"])
def test_a_forecast_measures_one_worker_and_all_cores(
    make_tree, config_for, tmp_path, monkeypatch, job
):
    monkeypatch.setattr(module, "count_cores", lambda: 2)
    tree = make_tree({"train/a": 40, "train/b": 12})
    (tree / "train" / "b" / "0003.png").write_bytes(b"not a picture")
    config = config_for(tree, executor="threads", workers=None)
    if job == "frames":
        config = FramesConfig(tree, tmp_path / "run", executor="threads")
    measured = []
    found = forecast(config, sample_seconds=1e-9, on_frames=measured.append)
    assert (found.num_clips, found.num_frames, found.num_cores) == (2, 52, 2)
    assert found.sample_frames == 48
    assert 48 <= sum(measured) <= 3 * 48
    assert set(found.speeds) == {1, 2}
    assert 100 < found.bytes_per_frame < 100_000
    assert not config.out.exists()


@pytest.mark.parametrize(
    ("seen", "speed"),
    [
        ([(1.0, 4), (3.0, 24)], 10.0),  # without the start of the workers
        ([(1.0, 4), (2.0, 24)], 3.0),  # too short to leave it out: 24 frames in 8 s
        ([], 3.0),
    ],
)
def test_speed_is_measured_between_the_first_and_the_last_look(
    seen, speed, tmp_path, config_for, monkeypatch
):
    clock, asked = SimpleNamespace(now=0.0), []
    summary = SimpleNamespace(num_frames=24)

    def run_job(job, *, clips, on_progress):
        config = job.config
        asked.append((config.workers, config.retry_failed, config.out, len(clips)))
        for when, done in seen:
            clock.now = when
            for count in (0, done, done):
                on_progress(SimpleNamespace(frames_done=count))
        clock.now = 8.0
        return summary

    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module, "run_job", run_job)
    config = config_for(tmp_path, executor="threads", retry_failed=True)
    found = module._measure(config, folders(3, 3), tmp_path / "scratch", int, workers=3)
    assert found == (summary, speed)
    assert asked == [(3, False, tmp_path / "scratch", 2)]
