"""A path that leads nowhere, given to every function of the front door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from made_up_people import make_person, write_run

import posemill
from posemill.errors import PosemillError, RunError, SourceError


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
        (lambda to: posemill.status("nowhere"), RunError, "nowhere is not there"),
        (lambda to: posemill.open_run("nowhere"), RunError, "nowhere"),
    ],
)
def test_a_wrong_path_is_an_error_of_ours_that_names_it(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs" / "first", make_person(2, split="train"))


@pytest.mark.parametrize(("name", "kind"), [("run.json", "training"), ("sweep.json", "sweep")])
def test_a_training_is_not_taken_for_a_run_of_keypoints(
    name: str, kind: str, tmp_path: Path
) -> None:
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
        (lambda run: posemill.prepare(run, run.parent / "x", normalize="shoulder"), "shoulders"),
        (lambda run: posemill.prepare(run, run.parent / "x", fill="zeros"), "zero"),
        (lambda run: posemill.prepare(run, run.parent / "x", splits="trian"), "train"),
        (lambda run: posemill.visualize(run, run.parent / "x", style="openpos"), "openpose"),
        (lambda run: posemill.visualize(run, run.parent / "x", video="mp5"), "mp4"),
        (lambda run: posemill.extract(run, run.parent / "x", layout="frame"), "frames"),
        (lambda run: posemill.open_run(run).table("trian"), "train"),
    ],
)
def test_a_value_that_is_almost_right_gets_the_right_one(call, meant, run) -> None:
    with pytest.raises(PosemillError, match=f"did you mean .*{meant}'"):
        call(run)


def test_a_folder_for_temporary_files_is_gone_when_it_is_empty(tmp_path: Path) -> None:
    picture = np.zeros((8, 8, 3), np.uint8)
    (tmp_path / "d").mkdir()
    cv2.imwrite(str(tmp_path / "d" / "a.png"), picture)
    for name in ("new", "old"):
        if name == "old":
            (tmp_path / name).mkdir()
        posemill.extract(tmp_path / "d", tmp_path / f"run {name}", engine="fake", executor="serial",
                         temp_dir=tmp_path / name)  # fmt: skip
        assert (tmp_path / name).exists() == (name == "old")
