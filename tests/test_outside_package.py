"""One of each kind comes from outside: a small installed package, used by the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

PACKAGE = """
from posemill.decoders.video_pyav import PyavReader
from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.fake import FakeState
from posemill.executors.processes import ProcessExecutor
from posemill.formats.npz import NpzFormat
from posemill.records import Keypoints
from posemill.skeletons import Part, Skeleton
import numpy as np

CROSS = Skeleton("cross-5", (Part("arms", 0, 2), Part("body", 2, 5)),
                 ("left_arm", "right_arm", "top", "middle", "foot"),
                 ((0, 3), (1, 3), (2, 3), (3, 4)), (1, 0, 2, 3, 4))


class CrossEngine:
    info = EngineInfo("finds crosses", (CROSS,), modes=("image",),
                      options=(EngineOption("scale", float, 1.0, "Of the cross.", least=0),))

    def __init__(self, *, device="cpu", threads=1, scale=1.0):
        self.scale = scale

    def new_state(self):
        return FakeState()

    def load_state(self, data):
        return FakeState()

    def estimate(self, frames, states=None):
        points = np.zeros((len(frames), 5, 3), np.float32)
        for row, frame in enumerate(frames):
            points[row] = self.scale * (0.1 + frame.mean() / 600 + np.arange(15).reshape(5, 3) / 30)
        sizes = np.array([f.shape[1::-1] for f in frames], np.int32).reshape(-1, 2)
        return Keypoints(points, np.ones((len(frames), 5), np.float32), sizes)

    def identity(self):
        return {"engine": "cross", "scale": str(self.scale)}

    def close(self):
        pass


class OwnDecoder(PyavReader):
    pass


class OwnExecutor(ProcessExecutor):
    pass


class OwnFormat(NpzFormat):
    name = "crosses"
    suffix = ".crosses"

    def sniff(self, path):
        return path.suffix == ".crosses"
"""
MODEL = """
from posemill.training.models.keypoints.mlp import Mlp


class OwnModel(Mlp):
    pass
"""
SUITES = """
from posemill.testing import DecoderContract, EngineContract, ExecutorContract, FormatContract


class TestEngine(EngineContract):
    name = "cross"


class TestDecoder(DecoderContract):
    name = "own-decoder"
    videos = ("h264.mp4",)


class TestExecutor(ExecutorContract):
    name = "own-executor"


class TestFormat(FormatContract):
    name = "crosses"
"""


@pytest.fixture
def package(install_entry_points) -> Path:
    folder = install_entry_points({
        "posemill.engines": {"cross": "crosses:CrossEngine"},
        "posemill.decoders": {"own-decoder": "crosses:OwnDecoder"},
        "posemill.executors": {"own-executor": "crosses:OwnExecutor"},
        "posemill.formats": {"crosses": "crosses:OwnFormat"},
        "posemill.models": {"own-model": "crosses_model:OwnModel"},
    })  # fmt: skip
    (folder / "crosses.py").write_text(PACKAGE)
    (folder / "crosses_model.py").write_text(MODEL)
    (folder / "test_crosses.py").write_text(SUITES)
    return folder


def run(package: Path, *arguments: object) -> str:
    paths = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=package,
        env={**os.environ, "PYTHONPATH": paths}, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_of_each_kind_from_outside_goes_the_whole_way(package: Path, tmp_path: Path) -> None:
    for split, number in (("train", 8), ("dev", 4)):
        for clip in range(number):
            folder = tmp_path / "frames" / split / f"c{clip}"
            folder.mkdir(parents=True)
            for frame in range(3):
                shade = np.full((24, 32, 3), 200 if clip % 2 else 60, np.uint8)
                cv2.imwrite(str(folder / f"{frame}.png"), shade + frame)
    out, data = tmp_path / "run", tmp_path / "data"
    run(package, "posemill", "extract", tmp_path / "frames", "--out", out, "--engine", "cross",
        "--engine-option", "scale=0.5", "--decoder", "own-decoder", "--executor", "own-executor",
        "--workers", 1)  # fmt: skip
    run(package, "posemill", "export", out, "--to", "crosses", "--out", tmp_path / "a.crosses")
    run(package, "posemill", "visualize", tmp_path / "a.crosses", "--out", tmp_path / "drawn")
    run(package, "posemill", "prepare", out, "--out", data)
    labels = tmp_path / "labels.csv"
    labels.write_text("clip_id,label\n" + "".join(f"c{i},{'ab'[i % 2]}\n" for i in range(8)))
    run(package, "posemill", "train", "--data", data, "--labels", labels, "--model", "own-model",
        "--out", tmp_path / "model", "--epochs", 1, "--no-figures")  # fmt: skip
    said = run(package, "posemill", "predict", tmp_path / "model", tmp_path / "frames/dev/c1")
    assert "c1" in said


def test_the_contract_suites_pass_for_all_of_them(package: Path) -> None:
    said = run(package, "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
               package / "test_crosses.py")  # fmt: skip
    assert "passed" in said
