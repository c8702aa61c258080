"""What Python users call: every function of the front door, with plain words, on tiny data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import posemill
from posemill.errors import ConfigError, PosemillError, RunError, SourceError

CLIPS = {"train/a": 6, "train/b": 4, "dev/c": 5}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three clips of frames in two splits."""
    rng = np.random.default_rng(0)
    for clip, num_frames in CLIPS.items():
        (tmp_path / "tree" / clip).mkdir(parents=True)
        for index in range(num_frames):
            picture = rng.integers(100, 130, (48, 64, 3), dtype=np.uint8)  # neighbours are alike
            assert cv2.imwrite(str(tmp_path / "tree" / clip / f"{index}.png"), picture)
    return tmp_path / "tree"


@pytest.fixture
def run(tree: Path, tmp_path: Path) -> Path:
    # Tracked: alone, the fake engine's first point is at 0, 0, which a pkl calls missing.
    posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial", mode="video")
    return tmp_path / "run"


@pytest.mark.parametrize("kind", [str, Path])
def test_extract_takes_the_flags_as_keywords_and_says_what_came_of_it(
    tree: Path, tmp_path: Path, kind: Callable[[Path], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    result = posemill.extract(
        kind(tree), out=kind(tmp_path / "run"), engine="fake", workers=2, executor="threads"
    )
    assert (result.num_clips, result.num_frames) == (3, 15)
    assert (result.num_clips_failed, result.num_frames_failed, result.reasons) == (0, 0, ())
    assert repr(result) == f"Summary({str(tmp_path / 'run')!r}, 3 clips, 15 frames, 0 failed)"
    assert isinstance(result.run, posemill.Run)
    assert len(result.run["a"]) == 6
    assert capsys.readouterr() == ("", "")  # nobody watches


def test_extract_takes_a_config_too(tree: Path, tmp_path: Path) -> None:
    config = posemill.ExtractConfig(tree, tmp_path / "run", engine="fake", executor="serial")
    seen: list[Any] = []
    assert posemill.extract(config, on_progress=seen.append, on_count=print).num_frames == 15
    assert seen
    with pytest.raises(ConfigError, match="an ExtractConfig says everything; out, workers came"):
        posemill.extract(config, "elsewhere", workers=2)


def test_a_clip_that_cannot_be_read_is_counted_not_raised(tree: Path, tmp_path: Path) -> None:
    (tree / "train" / "a" / "3.png").write_bytes(b"no picture")
    result = posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial")
    assert (result.num_frames, result.num_frames_failed) == (14, 1)
    assert "14 frames, 1 failed" in repr(result)
    assert [each.frame_index for each in result.run.failures()] == [3]


def test_a_setting_that_is_nearly_right_is_suggested(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'worker'; did you mean 'workers'\?"):
        posemill.extract(tree, tmp_path / "run", worker=2)
    with pytest.raises(ConfigError, match="unknown setting 'zzz'; see: posemill extract"):
        posemill.extract(tree, tmp_path / "run", zzz=2)
    with pytest.raises(ConfigError, match="out is missing; see posemill extract --help"):
        posemill.extract(tree)
    with pytest.raises(ConfigError, match="workers: expected at least 1, got 0"):
        posemill.extract(tree, tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


def test_progress_can_be_asked_for_in_a_log(
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posemill.api.progress._SECONDS", {"log": 0.0})
    posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial", progress=True)
    assert "/15 frames" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda to: posemill.extract("nowhere", to, engine="fake"), SourceError, "nowhere"),
        (lambda to: posemill.prepare("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.export("nowhere", "pkl", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.import_run("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.merge(["nowhere"], to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.view("nowhere"), PosemillError, "nowhere: no such file or folder"),
        (lambda to: posemill.visualize("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.report("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.status("nowhere"), RunError, "nowhere"),
        (lambda to: posemill.open_run("nowhere"), RunError, "nowhere"),
    ],
)
def test_a_wrong_path_is_an_error_of_ours_that_names_it(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_status_says_how_far_a_run_is(run: Path) -> None:
    found = posemill.status(str(run))
    assert found.state == "finished"
    assert repr(found) == f"Status({str(run)!r}, finished, 15/15 frames, 0 failed)"


def test_prepare_writes_the_input_of_a_model(run: Path, tmp_path: Path) -> None:
    made = posemill.prepare(str(run), str(tmp_path / "data"), normalize="shoulders")
    assert [each.split for each in made] == ["train", "dev"]
    assert repr(made[0]).startswith("Prepared('train', 2 clips, 10 frames, ")
    with np.load(tmp_path / "data" / "train_keypoints.npz") as arrays:
        assert arrays["keypoints"].shape[1:] == (143, 3)
    # A single split is one name, not its letters; a run stands for its folder.
    (made,) = posemill.prepare(
        posemill.open_run(run), tmp_path / "data", splits="dev", skeleton=543
    )
    assert made.stats["num_frames"] == 5
    with np.load(made.path) as arrays:
        assert arrays["keypoints"].shape[1:] == (543, 3)


def test_export_and_import_go_round(run: Path, tmp_path: Path) -> None:
    written = posemill.export(run, to="pkl", out=tmp_path / "points.pkl", splits=["train"])
    assert (written.num_clips, written.num_frames) == (2, 10)
    assert any("scores" in loss for loss in written.losses)
    came = posemill.import_run(str(tmp_path / "points.pkl"), str(tmp_path / "back"), size="64x48")
    assert came.run.skeleton_name == "holistic-143"
    np.testing.assert_allclose(
        came.run["a"].points, posemill.open_run(run)["a"].as_skeleton("holistic-143").points
    )
    counted = posemill.import_run(tmp_path / "points.pkl", tmp_path / "no", dry_run=True)
    assert counted.num_frames == 10
    assert not (tmp_path / "no").exists()


def test_merge_joins_runs(run: Path, tree: Path, tmp_path: Path) -> None:
    other = posemill.extract(
        tree, tmp_path / "dev", splits=["dev"], engine="fake", executor="serial", mode="video"
    )
    merged = posemill.merge([run, other], out=tmp_path / "all")
    assert (merged.num_clips, merged.equal_duplicates) == (3, 1)
    assert posemill.open_run(merged).num_frames == 15
    with pytest.raises(TypeError, match=r"runs: expected several paths, as \['runs/a', …\]"):
        posemill.merge("runs/a", tmp_path / "other")


def test_a_run_that_is_not_finished_is_used_with_a_warning(run: Path, tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(run / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("DELETE FROM meta WHERE key = 'finished_at'")
    with pytest.warns(UserWarning, match="is not finished; what it holds so far is used") as seen:
        posemill.export(run, "txt", tmp_path / "points.txt")
    assert seen[0].filename == __file__  # where the user called, not where we warn


def test_view_gives_values_and_prints_lines(run: Path) -> None:
    found = posemill.view(str(run), splits="train", detailed=True, rows=1)
    assert found["splits"][0]["num_frames"] == 10
    assert [each["clip_id"] for each in found["clips"]] == ["a", "b"]
    first, second = repr(found).splitlines()
    assert first == f"View of {run}: run, holistic-543"
    assert second.startswith("  train: 2 clips, 10 frames; pose ")
    assert json.loads(json.dumps(found)) == found


def test_visualize_and_report_write_files(run: Path, tmp_path: Path) -> None:
    drawn = posemill.visualize(run, str(tmp_path / "pictures"), num_samples=1, clips="a")
    assert [path.name for path in drawn] == [path.name for path in drawn.paths]
    assert all(path.is_file() for path in drawn)
    assert (len(drawn), drawn.num_originals_gone, drawn.notes) == (2, 0, ())
    page = posemill.report(str(run), str(tmp_path / "report.html"))
    assert page.paths == (tmp_path / "report.html",)
    assert "<html" in page.paths[0].read_text()


def test_originals_that_are_gone_are_counted_and_noted(run: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").rename(tmp_path / "moved")
    drawn = posemill.visualize(run, tmp_path / "pictures", num_samples=1)
    assert drawn.num_originals_gone == 2
    assert "2 of 2 original pictures could not be read" in drawn.notes[0]
    drawn = posemill.visualize(
        run, tmp_path / "pictures", num_samples=1, originals=str(tmp_path / "moved")
    )
    assert drawn.num_originals_gone == 0


@pytest.mark.parametrize("size", ["64by48", "64", (64, 0), (1, 2, 3)])
def test_a_size_that_is_none_is_said(size: Any, run: Path) -> None:
    with pytest.raises(ConfigError, match="size: expected WIDTHxHEIGHT such as 1280x720, got"):
        posemill.view(run, size=size)


@pytest.fixture
def trained(run: Path, tmp_path: Path) -> Any:
    """A tiny model, trained on what the fake engine found."""
    pytest.importorskip("torch")
    posemill.prepare(run, tmp_path / "data")
    (tmp_path / "labels.csv").write_text("video_id,label\na,yes\nb,no\nc,yes\n")
    return posemill.train(
        data=tmp_path / "data", labels=str(tmp_path / "labels.csv"), out=tmp_path / "trained",
        model="mlp", epochs=1, mode="single", threads=1, figures=False, tensorboard=False,
    )  # fmt: skip


def test_train_takes_the_flags_as_keywords_and_predict_several_sources(
    trained: Any, run: Path, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posemill.estimators.fake import FakeEstimator
    from posemill.jobs import landmarks

    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())
    assert Path(trained) == tmp_path / "trained"
    one, other = str(tree / "train" / "a"), tree / "dev" / "c"
    (found,) = posemill.predict(trained, one)
    assert found.clip_id == "a"
    assert found.label in ("yes", "no")
    assert found.top[0][0] == found.label
    again = posemill.predict(str(tmp_path / "trained"), [one, other])
    assert [each.clip_id for each in again] == ["a", "c"]
    assert again[0] == found
    # A run, prepared data and clips in one go, in their order; a run is read, not estimated.
    data = tmp_path / "data" / "dev_keypoints.npz"
    clip = posemill.open_run(run)["b"]
    many = posemill.predict(trained, [posemill.open_run(run), data, clip])
    assert [each.clip_id for each in many] == ["a", "b", "c", "c", "b"]
    assert many[1].probability == pytest.approx(many[4].probability, abs=1e-5)


def test_what_predict_cannot_use_is_said(
    trained: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posemill.estimators.fake import FakeEstimator
    from posemill.jobs import landmarks

    with pytest.raises(SourceError, match=r"absent\.mp4: no such file or folder; expected a vid"):
        posemill.predict(trained, [tmp_path / "absent.mp4"])
    with pytest.raises(PosemillError, match="nowhere"):
        posemill.predict(tmp_path / "nowhere", tree / "train" / "a")
    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())
    (tree / "train" / "a" / "3.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning, match=r"3\.png"):
        (found,) = posemill.predict(trained, tree / "train" / "a")
    assert found.clip_id == "a"


def test_a_training_that_is_said_twice_or_wrongly_is_refused(tmp_path: Path) -> None:
    config = posemill.TrainConfig(data="data", out="run")
    with pytest.raises(ConfigError, match="a TrainConfig says everything; epochs came beside it"):
        posemill.train(config, epochs=3)
    with pytest.raises(ConfigError, match=r"unknown setting 'epoch'; did you mean 'epochs'\?"):
        posemill.train(data="data", out="run", epoch=3)
    (tmp_path / "own.toml").write_text('data = "nowhere"\n')
    with pytest.raises(PosemillError, match="out: expected the folder of the run"):
        posemill.train(tmp_path / "own.toml", epochs=1)


def test_a_file_as_out_is_written_beside_its_run(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "points.npz"
    result = posemill.extract(tree, out, engine="fake", executor="serial")
    assert (result.folder, out.is_file()) == (tmp_path / "points.run", True)
    assert posemill.status(out).state == "finished"
    assert posemill.export(result, out=tmp_path / "points.csv").format_name == "csv"
    with pytest.raises(ConfigError, match="out: expected the file or the folder to write, got"):
        posemill.export(result, "csv")
