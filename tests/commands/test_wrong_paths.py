"""What wrong calls say: keywords to whoever calls a function, flags to whoever gave them."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest
from made_up_people import make_person, write_run

import posemill
from posemill.errors import ConfigError, FormatError, PosemillError, RunError, SourceError


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
        (lambda to: posemill.report("nowhere", __file__), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.status("nowhere"), RunError, "nowhere is not there"),
        (lambda to: posemill.open_run("nowhere"), RunError, "nowhere"),
    ],
)
def test_a_wrong_path_is_an_error_of_ours_that_names_it(call, error, message, tmp_path):
    with pytest.raises(error, match=message):
        call(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs" / "first", make_person(2, split="train"))


@pytest.mark.parametrize(("name", "kind"), [("run.json", "training"), ("sweep.json", "sweep")])
def test_a_training_is_not_taken_for_a_run_of_keypoints(name, kind, tmp_path):
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / name).write_text(f'{{"kind": "posemill-{kind}"}}')
    for call in (posemill.report, posemill.view, posemill.prepare, posemill.visualize):
        with pytest.raises(RunError, match=rf"trained is a {kind}: .* posemill status .*trained$"):
            call(folder, **({} if call is posemill.view else {"out": tmp_path / "out"}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda run: posemill.status(run.parent / "frst"), "first"),
        (lambda run: posemill.evaluate(run.parent / "frst"), "first"),
        (lambda run: posemill.predict(run.parent / "frst", run), "first"),
        (lambda run: posemill.prepare(run, run.parent / "x", normalize="shoulder"), "shoulders"),
        (lambda run: posemill.prepare(run, run.parent / "x", fill="zeros"), "zero"),
        (lambda run: posemill.prepare(run, run.parent / "x", splits="trian"), "train"),
        (lambda run: posemill.visualize(run, run.parent / "x", style="openpos"), "openpose"),
        (lambda run: posemill.visualize(run, run.parent / "x", video="mp5"), "mp4"),
        (lambda run: posemill.extract(run, run.parent / "x", layout="frame"), "frames"),
        (lambda run: posemill.open_run(run).table("trian"), "train"),
    ],
)
def test_a_value_that_is_almost_right_gets_the_right_one(call, meant, run):
    with pytest.raises(PosemillError, match=f"did you mean .*{meant}'"):
        call(run)


def test_functions_say_keywords(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(FormatError, match=r"name it by from_format$"):
        posemill.view(tmp_path / "a.json")
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "a.mp4").touch()
    (tmp_path / "both" / "a.png").touch()
    with pytest.raises(SourceError, match=r'one kind by layout="videos", layout="frames" or'):
        posemill.extract(tmp_path / "both", out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"^size: expected"):
        posemill.view(tmp_path / "a.json", size="1x")


@pytest.mark.parametrize(("function", "keyword", "said"), [
    ("prepare", "skeletons", "prepare() has no keyword 'skeletons'; did you mean 'skeleton'?"),
    ("view", "zzz", "view() has no keyword 'zzz'; it takes: run, detailed, rows,"),
    ("evaluate", "checkpont", "evaluate() has no keyword 'checkpont'; did you mean 'checkpoint'?"),
])  # fmt: skip
def test_a_wrong_keyword_of_a_function_names_the_nearest(function, keyword, said):
    with pytest.raises(TypeError) as caught:
        getattr(posemill, function)("nowhere", **{keyword: 1})
    assert str(caught.value).startswith(said)


def test_a_function_is_found_again_by_another_process():
    for name in posemill.__all__:
        value = getattr(posemill, name)
        if inspect.isfunction(value):
            assert pickle.loads(pickle.dumps(value)) is value
            assert value.__doc__
            signature = inspect.signature(value)
            assert "keywords" not in signature.parameters
            assert signature.return_annotation is not signature.empty


def test_a_function_says_its_name_with_what_it_lacks():
    with pytest.raises(TypeError, match=r"open_run\(\) missing .* 'path'"):
        posemill.open_run()


def test_commands_say_flags_and_a_file_its_settings(tmp_path):
    def said(*arguments: object) -> str:
        command = [sys.executable, "-m", "posemill", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert said("view", tmp_path, "--size", "1x").startswith("posemill: --size: expected WIDTH")
    assert said("train", "--epochs", "-1", "--out", "x").startswith("posemill: --epochs: expected")
    (tmp_path / "a.toml").write_text("epochs = -1\n")
    assert "posemill: epochs: expected" in said("train", tmp_path / "a.toml", "--out", "x")
