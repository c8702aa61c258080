"""`posemill.extract` and `status`, with plain words, on tiny data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posemill
from posemill.errors import ConfigError


@pytest.mark.parametrize("kind", [str, Path])
def test_extract_takes_the_flags_as_keywords_and_says_what_came_of_it(
    tree: Path, tmp_path: Path, kind: Callable[[Path], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = posemill.extract(
        kind(tree), out=kind(tmp_path / "run"), engine="fake", workers=2, executor="threads"
    )
    assert (result.num_clips, result.num_frames) == (3, 15)
    assert (result.clips_failed, result.frames_failed, result.reasons) == (0, 0, ())
    assert repr(result) == f"Summary({str(tmp_path / 'run')!r}, 3 clips, 15 frames, 0 failed)"
    assert isinstance(result.run, posemill.Run)
    assert len(result.run["a"]) == 6
    assert capsys.readouterr() == ("", "")  # nobody watches


def test_extract_takes_a_config_too(tree: Path, tmp_path: Path) -> None:
    config = posemill.ExtractConfig(tree, tmp_path / "run", engine="fake", executor="serial")
    seen: list[Any] = []
    assert posemill.extract(config, on_progress=seen.append).num_frames == 15
    assert seen
    with pytest.raises(ConfigError, match="ExtractConfig says everything; out, workers came"):
        posemill.extract(config, "elsewhere", workers=2)


def test_progress_can_be_asked_for_in_a_log(
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posemill.commands.progress._SECONDS", {"log": 0.0})
    posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial", progress=True)
    assert "/15 frames" in capsys.readouterr().err


def test_status_says_how_far_a_run_is(run: Path) -> None:
    found = posemill.status(str(run))
    assert found.state == "finished"
    assert repr(found) == f"Status({str(run)!r}, finished, 15/15 frames, 0 failed)"


def test_a_file_as_out_is_written_beside_its_run(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "points.npz"
    result = posemill.extract(tree, out, engine="fake", executor="serial")
    assert (result.folder, out.is_file()) == (tmp_path / "points.run", True)
    assert posemill.status(out).state == "finished"
    assert posemill.export(result, out=tmp_path / "points.csv").format_name == "csv"
    with pytest.raises(ConfigError, match="out: expected the file or the folder to write, got"):
        posemill.export(result, "csv")
