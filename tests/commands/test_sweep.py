from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runner import call, said_by

from posemill.training.launch import sweep


def test_a_dry_run_lists_the_trainings_as_json(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    found = json.loads(said_by("sweep", path, "--dry-run", "--json"))
    assert [row["lr"] for row in found["trainings"]] == [0.1, 0.2]
    assert {row["state"] for row in found["trainings"]} == {"waiting"}
    assert not (tmp_path / "out").exists()
    assert "waiting" in said_by("sweep", path, "--dry-run")


@pytest.mark.parametrize("num_means", [1, 2])
def test_means_are_shown_where_several_trainings_share_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_means: int
) -> None:
    rows = [{"name": name, "state": state} for name, state in
            (("a", "done"), ("b", "done"), ("c", "waiting"))]  # fmt: skip
    means = [{"mean": number} for number in range(num_means)]
    monkeypatch.setattr(sweep, "tabulate", lambda *_: rows)
    monkeypatch.setattr(sweep, "summarize", lambda _: means)
    (tmp_path / "sweep.toml").write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    result = call("sweep", tmp_path / "sweep.toml", "--dry-run")
    assert ("mean" in result.stdout) == (num_means == 1)


def test_a_synthetic_corpus_is_written(tmp_path: Path) -> None:
    said = said_by("synthetic-corpus", tmp_path / "c", "--glosses", 4, "--train", 3)
    assert "train  3 clips" in said
    assert len(list((tmp_path / "c" / "keypoints").iterdir())) == 3
