"""`posemill tune` and `posemill train --tune` on a small training."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands.line import run_line
from posemill.errors import ConfigError
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.record.run_folder import RunFolder
from posemill.training.tuning import tune as tuning
from posemill.training.tuning.tune import Row, Search


@pytest.fixture
def quick(settings, tmp_path):
    """A configuration in a file, with little time to tune it."""
    fields = settings(tune_seconds=1.0)
    del fields["num_workers"], fields["mode"], fields["precision"]
    config = TrainConfig(**fields, parallel="single", workers=0, precision="fp32")
    path = tmp_path / "config.toml"
    text = posemill.provenance.Resolved.of(config).to_toml(is_short=True)
    path.write_text(text)
    return path


def find(values: dict[str, Any], before: float, after: float, monkeypatch: Any) -> None:
    """Let the search find these settings, and the last measurement these speeds."""

    def run(self: Search) -> None:
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
    command = ["train", str(quick), "--tune", "--json"]
    result = CliRunner().invoke(run_line, command)
    assert result.exit_code == 0, result.output
    tuned = json.loads(result.stdout)["tuned"]
    assert (tuned["found"], tuned["gain"]) == ({"cache": "ram"}, 1.5)
    folder = RunFolder(tmp_path / "run")
    assert read_config(folder.config_path)["cache"] == "ram"
    assert "made up" in folder.config_path.read_text()
    assert "tuned: 150 samples/s, 100 before (1.50x)" in (folder.path / "log.txt").read_text()
    # What goes on goes on as it began.
    monkeypatch.setattr(tuning, "tune_training", pytest.fail)
    posemill.train(quick, tune="all", resume=True)


def test_a_flag_keeps_its_value(quick, monkeypatch):
    fixed: list[frozenset[str]] = []
    monkeypatch.setattr(Search, "run", lambda self: fixed.append(self.fixed))
    posemill.tune(quick, cache="mmap")
    assert fixed == [{"cache", "tune"}]


def test_the_command_prints_what_it_measured(quick, tmp_path, monkeypatch):
    find({"cache": "ram"}, 100.0, 150.0, monkeypatch)
    out = tmp_path / "tuned.toml"
    result = CliRunner().invoke(run_line, ["tune", str(quick), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "made up" in result.stdout
    assert "150 samples/s, 100 before (1.50x)" in result.stdout
    assert f"posemill train {out} --out runs/" in result.stdout  # as the file names no folder
    said = CliRunner().invoke(run_line, ["tune", str(quick)], env={"POSEMILL_LANG": "zh_CN"})
    assert "之前" in said.stdout
    found = CliRunner().invoke(run_line, ["tune", str(quick), "--json"])
    assert json.loads(found.stdout)["rows"][-1]["setting"] == "made up"


def test_processes_of_torchrun_are_not_tuned(quick, monkeypatch):
    monkeypatch.setattr(tuning, "under_torchrun", lambda: True)
    with pytest.raises(ConfigError, match="tune measures in one process: run posemill tune first"):
        posemill.tune(quick)
