"""The sample a forecast is measured on, and what follows from the measurement."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from posemill.jobs import forecast as module
from posemill.jobs.forecast import Forecast, forecast, sample_clips
from posemill.records import Clip
from posemill.sources.clip_list import ClipList


def clip_list(*clips):
    return ClipList(clips, "frames", "/data", "whole")


def folders(*lengths):
    return clip_list(*(Clip(f"c{i}", f"/c{i}", "frames", num_frames=n)
                       for i, n in enumerate(lengths)))  # fmt: skip


def lengths_of(sample):
    return [clip.num_frames for clip in sample]


def test_of_one_long_clip_the_first_frames_are_enough():
    sample = sample_clips(folders(1000), folders(1000), 24)
    assert lengths_of(sample) == [24]
    assert sample.fingerprint == "sample-24"


def test_the_last_clip_gives_what_is_missing_but_not_less_than_a_few_frames():
    clips = folders(20, 20, 20)
    assert lengths_of(sample_clips(clips, clips, 24)) == [20, 8]
    assert lengths_of(sample_clips(clips, clips, 33)) == [20, 13]
    assert lengths_of(sample_clips(clips, clips, 40)) == [20, 20]


def test_a_budget_larger_than_the_source_takes_all_of_it():
    clips = folders(5, 9, 7)
    sample = sample_clips(clips, clips, 10_000)
    assert sorted(lengths_of(sample)) == [5, 7, 9]


def test_clips_come_from_all_over_the_source_and_are_always_the_same():
    clips = folders(*[10] * 300)
    chosen = [int(clip.clip_id[1:]) for clip in sample_clips(clips, clips, 100)]
    assert len(chosen) == len(set(chosen)) == 10
    assert min(chosen) < 100
    assert max(chosen) > 200
    assert chosen == [int(clip.clip_id[1:]) for clip in sample_clips(clips, clips, 100)]


@pytest.mark.parametrize("length", [None, 0])
def test_videos_that_cannot_be_read_are_left_out_and_the_next_ones_taken(length):
    clips = [Clip(f"v{i}", f"/v{i}.mp4", "video", num_frames=length) for i in range(6)]
    clips[3] = Clip("good", "/good.mp4", "video", num_frames=30)
    sample = sample_clips(clip_list(*clips), clips, 24)
    assert [clip.clip_id for clip in sample] == ["good"]
    assert len(sample_clips(clip_list(*clips[:3]), clips[:3], 24)) == 0


@pytest.mark.parametrize("budget", [1, 24, 60])
def test_no_more_clips_are_looked_at_than_could_be_needed(budget):
    # None of the first ones can be read: it is not looked for ever.
    looked = []

    class Counted(list):
        def __getitem__(self, index):
            looked.append(index)
            return super().__getitem__(index)

    clips = [Clip(f"v{i}", f"/v{i}.mp4", "video") for i in range(200)]
    assert len(sample_clips(clip_list(*clips), Counted(clips), budget)) == 0
    assert len(looked) == max(24, budget)


def test_of_a_long_video_a_window_is_taken_of_a_short_one_all():
    long = Clip("v", "/v.mp4", "video", num_frames=500, start_seconds=2.0)
    (window,) = sample_clips(clip_list(long), [long], 50)
    assert (window.num_frames, window.start_seconds, window.end_seconds) == (None, 2.0, 4.0)
    short = Clip("v", "/v.mp4", "video", num_frames=50, end_seconds=7.0)
    assert list(sample_clips(clip_list(short), [short], 50)) == [short]


def test_speeds_are_in_proportion_to_the_closest_that_was_measured():
    found = Forecast(3, 7200, 50, {1: 2.0, 4: 6.0}, 1e6, 4)
    assert [found.speed(workers) for workers in (1, 2, 4, 8)] == [2.0, 4.0, 6.0, 12.0]
    rows = list(found.rows())
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 32]
    assert rows[0] == (1, 1.0, 7.2, "measured")
    assert rows[1][3] == "in proportion"
    assert rows[3][3] == "in proportion; this machine has 4 cores"
    assert [row[0] for row in Forecast(1, 1, 1, {1: 1.0}, 1.0, 64).rows()][-1] == 64


def test_a_forecast_measures_one_worker_and_all_cores(make_tree, config_for, monkeypatch):
    monkeypatch.setattr(module, "count_cores", lambda: 2)
    tree = make_tree({"train/a": 40, "train/b": 12})
    (tree / "train" / "b" / "0003.png").write_bytes(b"not a picture")
    measured = []
    really = module._measure

    def measure(config, sample, folder, *, workers):
        measured.append((workers, sum(lengths_of(sample))))
        return really(config, sample, folder, workers=workers)

    monkeypatch.setattr(module, "_measure", measure)
    config = config_for(tree, executor="threads", workers=None)
    found = forecast(config, sample_seconds=1e-9)
    assert (found.num_clips, found.num_frames, found.num_cores) == (2, 52, 2)
    assert measured == [(1, 24), (1, 24), (2, 48)]
    assert found.sample_frames == 48
    assert set(found.speeds) == {1, 2}
    assert 1000 < found.bytes_per_frame < 100_000
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

    def extract(config, *, clips, on_progress):
        asked.append((config.workers, config.retry_failed, config.out, len(clips)))
        (config.out / "shards").mkdir(parents=True)
        (config.out / "shards" / "a.parquet").write_bytes(b"x" * 4800)
        for when, done in seen:
            clock.now = when
            for count in (0, done, done):
                on_progress(SimpleNamespace(frames_done=count))
        clock.now = 8.0

    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module, "extract", extract)
    monkeypatch.setattr(module, "open_run", lambda folder: SimpleNamespace(num_frames=24))
    config = config_for(tmp_path, executor="threads", retry_failed=True)
    found = module._measure(config, folders(3, 3), tmp_path / "scratch", workers=3)
    assert found == (24 if seen else 0, speed, 200.0)
    assert asked == [(3, False, tmp_path / "scratch", 2)]


def test_a_sample_of_which_nothing_could_be_read_divides_by_one(tmp_path, config_for, monkeypatch):
    times = iter([0.0, 4.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(
        module, "extract", lambda config, **_: (config.out / "shards").mkdir(parents=True)
    )
    monkeypatch.setattr(module, "open_run", lambda folder: SimpleNamespace(num_frames=0))
    config = config_for(tmp_path, executor="threads")
    assert module._measure(config, folders(3), tmp_path / "s", workers=1) == (0, 0.25, 0.0)
