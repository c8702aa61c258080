from pathlib import Path

import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands import progress
from posemill.commands.line import run_line
from posemill.errors import ConfigError, DecodeError, PosemillError, SourceError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs import landmarks


@pytest.fixture
def trained(run, tmp_path, monkeypatch):
    """A tiny model, trained on what the fake engine found, which finds the keypoints, too."""
    pytest.importorskip("torch")
    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())
    posemill.prepare(run, tmp_path / "data")
    (tmp_path / "labels.csv").write_text("video_id,label\na,yes\nb,no\nc,yes\n")
    return posemill.train(
        data=tmp_path / "data", labels=str(tmp_path / "labels.csv"), out=tmp_path / "trained",
        model="mlp", epochs=1, mode="single", threads=1, figures=False, tensorboard=False,
    )  # fmt: skip


def test_train_takes_the_flags_as_keywords_and_predict_several_sources(
    trained, run, tree, tmp_path, monkeypatch, capsys
):
    assert posemill.evaluate(trained)["split"] == "dev"  # there is no test split to be judged by
    monkeypatch.setitem(progress._SECONDS, "log", 0.0)
    capsys.readouterr()
    posemill.predict(trained, tmp_path / "data" / "dev_keypoints.npz", progress=True)
    assert capsys.readouterr().err == "clips 1\n"
    assert Path(trained) == tmp_path / "trained"
    one, other = str(tree / "train" / "a"), tree / "dev" / "c"
    (found,) = posemill.predict(trained, one)
    assert found.clip_id == "a"
    assert found.label in ("yes", "no")
    assert found.top[0][0] == found.label
    capsys.readouterr()
    again = posemill.predict(str(tmp_path / "trained"), [one, other], progress=True)
    assert capsys.readouterr().err.splitlines()[-1] == f"frames [{'#' * 30}] 11 / 11"
    assert [each.clip_id for each in again] == ["a", "c"]
    assert again[0] == found
    (tmp_path / "list.csv").write_text(f"path,clip_id\n{one},a\n")
    assert posemill.predict(trained, tmp_path / "list.csv") == [found]
    # A run, prepared data and clips in one go, in their order; a run is read, not estimated.
    data = tmp_path / "data" / "dev_keypoints.npz"
    clip = posemill.open_run(run)["b"]
    many = posemill.predict(trained, [posemill.open_run(run), data, clip])
    assert [each.clip_id for each in many] == ["a", "b", "c", "c", "b"]
    assert many[1].probability == pytest.approx(many[4].probability, abs=1e-5)
    drawn = posemill.predict(trained, [data, clip], pictures=tmp_path / "pictures")
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == [".posemill-files", "b.png", "c.png"]
    assert [each.label for each in drawn] == [many[3].label, many[4].label]


def test_a_picture_of_a_prediction_is_replaced_by_its_own_source_only(trained, run, tmp_path):
    folder, data = tmp_path / "pictures", tmp_path / "data" / "dev_keypoints.npz"
    folder.mkdir()
    note = folder / "note.txt"
    note.write_text("mine")
    picture = folder / "c.png"
    posemill.predict(trained, data, pictures=folder)
    drawn = picture.read_bytes()
    posemill.predict(trained, [data], pictures=folder)  # the same again
    clip = posemill.open_run(run)["c"]
    for other in (run, clip, iter([data])):
        with pytest.raises(ConfigError, match=r"c\.png is a file.* by overwrite=True"):
            posemill.predict(trained, other, pictures=folder)
    picture.write_bytes(b"mine")
    with pytest.raises(ConfigError, match=r"c\.png is a file.* by overwrite=True"):
        posemill.predict(trained, data, pictures=folder)
    assert picture.read_bytes() == b"mine"
    (folder / "another.png").write_bytes(picture.read_bytes())
    picture.unlink()
    with pytest.raises(ConfigError, match=r"another\.png is a file.* by overwrite=True"):
        posemill.predict(trained, data, pictures=folder)
    posemill.predict(trained, data, pictures=folder, overwrite=True)
    assert picture.read_bytes() == drawn
    with pytest.raises(ConfigError, match=r"c\.png is the picture of two clips"):
        posemill.predict(trained, [data, clip], pictures=folder, overwrite=True)
    with pytest.raises(ConfigError, match=r"note\.txt is a file; expected a folder for pictures"):
        posemill.predict(trained, data, pictures=note, overwrite=True)
    assert note.read_text() == "mine"


def test_what_predict_cannot_use_is_said(trained, tree, tmp_path):
    with pytest.raises(SourceError, match=r"absent\.mp4' cannot be read: No such file"):
        posemill.predict(trained, [tmp_path / "absent.mp4"])
    with pytest.raises(PosemillError, match="nowhere: there is no such folder"):
        posemill.predict(tmp_path / "nowhere", tree / "train" / "a")
    (tree / "train" / "a" / "3.png").write_bytes(b"no picture")
    with pytest.warns(UserWarning, match=r"3\.png") as seen:
        (found,) = posemill.predict(trained, tree / "train" / "a")
    assert seen[0].filename == __file__  # where the user called
    assert found.clip_id == "a"
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    with pytest.warns(UserWarning, match=r"broken\.mp4"):
        (found,) = posemill.predict(trained, [broken, tree / "train" / "b"])  # as of a folder
    assert found.clip_id == "b"
    words = ["predict", str(trained.out), str(broken), str(tree / "train" / "b")]
    said = CliRunner().invoke(run_line, words)
    assert (said.exit_code, said.stdout.splitlines()[-1].split()[0]) == (1, "b"), said.output
    assert "broken.mp4" in said.stderr
    assert "loading the model" not in said.stderr  # nobody watches
    watched = CliRunner().invoke(run_line, words, color=True)
    assert watched.stderr.startswith("loading the model")
    (tmp_path / "flat.csv").write_text("a,1,2\n")
    with pytest.raises(PosemillError, match=r"clip 'row0' has frames of \(1, 2\), the model of "):
        posemill.predict(trained, tmp_path / "flat.csv")
    with pytest.raises(DecodeError, match=r"broken\.mp4"):
        posemill.predict(trained, [broken])


def test_a_training_that_is_said_twice_or_wrongly_is_refused(tmp_path):
    config = posemill.TrainConfig(data="data", out="run")
    with pytest.raises(ConfigError, match="a TrainConfig says everything; epochs came beside it"):
        posemill.train(config, epochs=3)
    with pytest.raises(ConfigError, match=r"unknown setting 'epoch'; did you mean 'epochs'\?"):
        posemill.train(data="data", out="run", epoch=3)
    (tmp_path / "own.toml").write_text('data = "nowhere"\n')
    with pytest.raises(PosemillError, match="out: expected the folder of the run"):
        posemill.train(tmp_path / "own.toml", epochs=1)
