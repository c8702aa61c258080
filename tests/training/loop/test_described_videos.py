"""Tuning and advice on a training that decodes videos."""

from __future__ import annotations

from typing import Any

import pytest

import posemill
from posemill.testing.decoders import write_video
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop import reporting
from posemill.training.loop.reporting import describe_videos
from posemill.training.loop.timing import read_evidence
from posemill.training.record.run_folder import RunFolder
from posemill.training.tasks.workload import build_workload
from posemill.training.tuning.tune import Row, Search, tune_training


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """A list of twelve videos of twelve frames, of two labels."""
    folder = tmp_path_factory.mktemp("videos")
    lines = ["path,split,label"]
    for number in range(12):
        write_video(folder / f"{number}.mp4", num_frames=12)
        lines.append(f"{number}.mp4,{'dev' if number < 4 else 'train'},{'ab'[number % 2]}")
    (folder / "videos.csv").write_text("\n".join(lines))
    return folder / "videos.csv"


@pytest.fixture
def config(videos, tmp_path):
    return TrainConfig(
        data=str(videos), data_kind="video", model="tsn", model_options={"width": 0.25},
        video_size=32, video_sampling="segments:2", epochs=4, batch_size=4, micro_batch=4,
        parallel="single", threads=1, processes=1, workers=0, precision="fp32", progress=False,
        tensorboard=False, figures=False, out=str(tmp_path / "run"),
        cache_folder=str(tmp_path / "cache"),
    )  # fmt: skip


def test_videos_are_described_unless_they_are_kept(config):
    facts = describe_videos(build_workload(config).train)
    assert (facts["num_videos"], facts["frame_side"]) == (8, 32)
    assert facts["decoded_bytes"] == 8 * 12 * 32 * 32 * 3
    assert facts["free_bytes"] > 0
    assert describe_videos(build_workload(config.replace(cache="mmap")).train) == {}


def test_a_cache_changes_nothing_but_the_time(config, tmp_path):
    config = config.replace(epochs=2)
    plain = posemill.train(config)
    kept = posemill.train(config.replace(cache="mmap", out=str(tmp_path / "kept")))
    assert list((tmp_path / "cache").rglob("*.npy"))
    losses = [[row["loss"] for row in RunFolder(run.out).read_metrics()] for run in (plain, kept)]
    assert losses[0] == losses[1]
    assert read_evidence(plain.out).num_videos in (0, 8)  # looked at where data is waited for
    assert read_evidence(kept.out).num_videos == 0


def run_caches(config: TrainConfig, speeds: Any, monkeypatch: pytest.MonkeyPatch) -> Search:
    monkeypatch.setattr(
        Search, "take_turns", lambda _, configs, rounds=3: [speeds[each.cache] for each in configs]
    )
    found = Search(build_workload, config, 100.0)
    found._caches()
    return found


def test_decoding_once_is_weighed_over_all_epochs(config, monkeypatch):
    monkeypatch.setattr(Search, "_fill", lambda *_: 50.0)
    speeds = {"none": 100.0, "mmap": 200.0}
    # four epochs: one at 50 and three at 200 samples/s
    found = run_caches(config, speeds, monkeypatch)
    assert found.best.cache == "mmap"
    assert found.rows == [Row("cache mmap", pytest.approx(4 / (1 / 50 + 3 / 200)),
                              pytest.approx(8 / 7), "taken")]  # fmt: skip
    assert run_caches(config.replace(epochs=2), speeds, monkeypatch).best.cache == "none"


def test_a_cache_that_does_not_fit_on_the_disk_is_not_tried(config, monkeypatch):
    monkeypatch.setattr(reporting, "free_bytes", lambda _: 10)
    found = run_caches(config, {}, monkeypatch)
    assert found.rows == [Row("cache mmap", note="not tried: about 0.0 GB, and 0.0 GB are free")]


def test_a_real_tuning_of_video_runs(config):
    free = config.replace(tune_seconds=2.0, tune="speed")
    sources = dict.fromkeys(config.all_fields(), "file")
    found = tune_training(build_workload, Resolved(free, sources))
    assert any(row.setting == "cache mmap" and row.samples_per_second for row in found.rows)
    assert found.gain >= 1
