import json

import pytest
from cli_runner import said_by
from small_sets import QUIET

import posemill
from posemill.errors import ConfigError
from posemill.testing.decoders import write_video
from posemill.training.config.resolve import Resolved, read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop import reporting
from posemill.training.loop.reporting import describe_videos
from posemill.training.loop.timing import read_evidence
from posemill.training.record.run_folder import RunFolder
from posemill.training.tasks.workload import build_workload
from posemill.training.tuning import tune as tuning
from posemill.training.tuning.tune import Row, Search, tune_training


@pytest.fixture
def quick(settings, tmp_path):
    """A configuration in a file, with little time to tune it."""
    path = tmp_path / "config.toml"
    config = TrainConfig(**settings(tune_seconds=1.0))
    path.write_text(Resolved.of(config).to_toml(is_short=True))
    return path


def find(values, before, after, monkeypatch):
    """Let the search find these settings, and the last measurement these speeds."""

    def run(self):
        self.rows.append(Row("made up", after, after / before, "taken"))
        self.best = self.best.replace(**values)
        self.reasons |= dict.fromkeys(values, "made up")

    monkeypatch.setattr(Search, "run", run)
    monkeypatch.setattr(Search, "compare", lambda *_: (before, after))


def test_a_real_tuning_measures_and_keeps_the_maths(quick):
    found = posemill.tune(quick, keep_maths=True)
    assert [row for row in found.rows if row.samples_per_second]
    assert found.gain >= 1
    assert found.before > 0
    assert "batch_size" not in found.found


@pytest.mark.parametrize(("keep_maths", "kind"), [(True, "speed"), (False, "all")])
def test_batch_and_precision_are_tuned_unless_the_maths_is_kept(
    keep_maths, kind, quick, monkeypatch
):
    find({}, 100.0, 100.0, monkeypatch)
    kinds, run = [], Search.run
    monkeypatch.setattr(Search, "run", lambda self: kinds.append(self.best.tune) or run(self))
    posemill.tune(quick, keep_maths=keep_maths)
    assert kinds == [kind]


def test_what_was_found_is_written_with_the_reason_and_trains(quick, tmp_path, monkeypatch):
    find({"cache": "ram"}, 100.0, 150.0, monkeypatch)
    posemill.tune(quick, out=tmp_path / "new" / "folder" / "tuned.toml")
    found = posemill.tune(quick, out=tmp_path / "tuned.toml")
    assert (found.found, found.gain) == ({"cache": "ram"}, 1.5)
    text = (tmp_path / "tuned.toml").read_text()
    assert 'cache = "ram"' in text
    assert "# machine: made up" in text
    given = read_config(quick)
    assert read_config(tmp_path / "tuned.toml") == {**given, "cache": "ram"}
    assert posemill.train(tmp_path / "tuned.toml", out=str(tmp_path / "trained")).scores
    (tmp_path / "tuned.toml").write_text("lr = 1.0\n")
    with pytest.raises(ConfigError, match=r"tuned\.toml.*overwrite"):
        posemill.tune(quick, out=tmp_path / "tuned.toml")
    assert (tmp_path / "tuned.toml").read_text() == "lr = 1.0\n"


@pytest.mark.parametrize(("after", "is_kept"), [(101.0, False), (102.0, True), (50.0, False)])
def test_settings_that_are_not_clearly_faster_at_the_end_are_not_kept(
    quick, monkeypatch, after, is_kept
):
    find({"cache": "ram"}, 100.0, after, monkeypatch)
    found = posemill.tune(quick)
    assert bool(found.found) == is_kept
    assert found.gain == (after / 100 if is_kept else 1.0)
    assert found.resolved.config.cache == ("ram" if is_kept else "mmap")
    if not is_kept:
        assert found.lines() == [
            "tuned: nothing was clearly faster than these settings, which stay"
        ]


def test_a_mode_is_written_whole(quick, monkeypatch):
    find({"threads": 2, "parallel": "multi_thread"}, 100.0, 200.0, monkeypatch)
    assert posemill.tune(quick).found == {
        "parallel": "multi_thread", "processes": 1, "threads": 2, "workers": 0,
    }  # fmt: skip


def test_train_measures_first_and_says_what_it_found(quick, tmp_path, monkeypatch):
    find({"cache": "ram"}, 100.0, 150.0, monkeypatch)
    tuned = json.loads(said_by("train", quick, "--tune", "--json"))["tuned"]
    assert (tuned["found"], tuned["gain"]) == ({"cache": "ram"}, 1.5)
    folder = RunFolder(tmp_path / "run")
    assert read_config(folder.config_path)["cache"] == "ram"
    assert "made up" in folder.config_path.read_text()
    assert "tuned: 150 samples/s, 100 before (1.50x)" in (folder.path / "log.txt").read_text()
    # What goes on goes on as it began.
    monkeypatch.setattr(tuning, "tune_training", pytest.fail)
    posemill.train(quick, tune="all", resume=True)


def test_a_flag_keeps_its_value(quick, monkeypatch):
    fixed = []
    monkeypatch.setattr(Search, "run", lambda self: fixed.append(self.fixed))
    posemill.tune(quick, cache="mmap")
    assert fixed == [{"cache", "tune"}]


def test_the_command_prints_what_it_measured(quick, tmp_path, monkeypatch):
    find({"cache": "ram"}, 100.0, 150.0, monkeypatch)
    out = tmp_path / "tuned.toml"
    said = said_by("tune", quick, "--out", out)
    assert "made up" in said
    assert "150 samples/s, 100 before (1.50x)" in said
    assert f"posemill train {out} --out runs/" in said  # as the file names no folder
    assert json.loads(said_by("tune", quick, "--json"))["rows"][-1]["setting"] == "made up"
    monkeypatch.setenv("POSEMILL_LANG", "zh_CN")
    assert "之前" in said_by("tune", quick)


def test_processes_of_torchrun_are_not_tuned(quick, monkeypatch):
    monkeypatch.setattr(tuning, "under_torchrun", lambda: True)
    with pytest.raises(ConfigError, match="tune measures in one process: run posemill tune first"):
        posemill.tune(quick)


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
        threads=1, processes=1, out=str(tmp_path / "run"), cache_folder=str(tmp_path / "cache"),
        **QUIET,
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


def run_caches(config, speeds, monkeypatch):
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
