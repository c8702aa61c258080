"""`posemill.train` and `predict`, with plain words, on tiny data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import posemill
from posemill.errors import ConfigError, PosemillError, SourceError


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
    drawn = posemill.predict(trained, [data, clip], pictures=tmp_path / "pictures")
    assert sorted(path.stem for path in (tmp_path / "pictures").iterdir()) == ["b", "c"]
    assert [each.label for each in drawn] == [many[3].label, many[4].label]


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
    with pytest.warns(UserWarning, match=r"3\.png") as seen:
        (found,) = posemill.predict(trained, tree / "train" / "a")
    assert seen[0].filename == __file__  # where the user called
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
