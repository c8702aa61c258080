from __future__ import annotations

import json
from pathlib import Path

from cli_runner import CliRunner

from posemill.commands.line import run_line


def test_a_dry_run_lists_the_trainings_as_json(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(f'out = "{tmp_path}/out"\n[grid]\nlr = [0.1, 0.2]\n')
    result = CliRunner().invoke(run_line, ["sweep", str(path), "--dry-run", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["lr"] for row in found["trainings"]] == [0.1, 0.2]
    assert {row["state"] for row in found["trainings"]} == {"waiting"}
    assert not (tmp_path / "out").exists()
    table = CliRunner().invoke(run_line, ["sweep", str(path), "--dry-run"])
    assert "waiting" in table.stdout


def test_a_synthetic_corpus_is_written(tmp_path: Path) -> None:
    arguments = ["synthetic-corpus", str(tmp_path / "c"), "--glosses", "4", "--train", "3"]
    result = CliRunner().invoke(run_line, arguments)
    assert result.exit_code == 0, result.output
    assert "train  3 clips" in result.stdout
    assert len(list((tmp_path / "c" / "keypoints").iterdir())) == 3
