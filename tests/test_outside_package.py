"""One of each kind comes from outside: a small installed package, used by the command line."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from packaging.version import Version

import posemill
from posemill.errors import PosemillError

PACKAGE = """
from posemill.decoders.video_pyav import PyavReader
from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.fake import FakeState
from posemill.executors.processes import ProcessExecutor
from posemill.formats.npz import NpzFormat
from posemill.records import Keypoints
from posemill.skeletons import Part, Skeleton
import numpy as np
import os

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
    def __init__(self, path, **keywords):
        with open(os.environ["READ_BY_OWN_DECODER"], "ab") as notes:
            notes.write(os.fsencode(path) + bytes([10]))
        super().__init__(path, **keywords)


class OwnExecutor(ProcessExecutor):
    pass


class OwnFormat(NpzFormat):
    name = "crosses"
    suffix = ".crosses"

    def sniff(self, path):
        return path.suffix == ".crosses"
"""
MODEL = """
from posemill.training.models.sequence import Mlp


class OwnModel(Mlp):
    pass
"""


@pytest.fixture
def package(install_entry_points):
    folder = install_entry_points({
        "posemill.engines": {"cross": "crosses:CrossEngine"},
        "posemill.decoders": {"own-decoder": "crosses:OwnDecoder"},
        "posemill.executors": {"own-executor": "crosses:OwnExecutor"},
        "posemill.formats": {"crosses": "crosses:OwnFormat"},
        "posemill.models": {"own-model": "crosses_model:OwnModel"},
    })  # fmt: skip
    (folder / "crosses.py").write_text(PACKAGE)
    (folder / "crosses_model.py").write_text(MODEL)
    return folder


@pytest.fixture(autouse=True)
def _use_warm_processes(warm_children):
    """Processes of these tests have loaded posemill already: their start is not the point."""


def run(package, *arguments):
    done = call(package, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call(package, *arguments):
    paths = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=package,
        env={**os.environ, "PYTHONPATH": paths, "READ_BY_OWN_DECODER": str(package / "read.txt")},
        timeout=240, check=False,
    )  # fmt: skip


def test_one_of_each_kind_from_outside_goes_the_whole_way(package, tmp_path, monkeypatch):
    for split, number in (("train", 8), ("dev", 4)):
        for clip in range(number):
            write_video(tmp_path / "videos" / split / f"c{clip}.mp4", 200 if clip % 2 else 60)
    out, data = tmp_path / "run", tmp_path / "data"
    run(package, "posemill", "extract", tmp_path / "videos", "--out", out, "--engine", "cross",
        "--engine-option", "scale=0.5", "--decoder", "own-decoder", "--executor", "own-executor",
        "--workers", 1)  # fmt: skip
    monkeypatch.setenv("READ_BY_OWN_DECODER", str(package / "read.txt"))
    posemill.export(out, "crosses", tmp_path / "a.crosses", progress=False)
    posemill.visualize(tmp_path / "a.crosses", tmp_path / "drawn", progress=False)
    posemill.prepare(out, data, progress=False)
    labels = tmp_path / "labels.csv"
    labels.write_text("clip_id,label\n" + "".join(f"c{i},{'ab'[i % 2]}\n" for i in range(8)))
    posemill.train(data=data, labels=str(labels), model="own-model", out=tmp_path / "model",
                   epochs=1, mode="single", threads=1, workers=0, figures=False, tensorboard=False,
                   progress=False)  # fmt: skip
    read = (package / "read.txt").read_text()
    assert all(f"train/c{clip}.mp4" in read for clip in range(8))
    (package / "read.txt").unlink()
    video = tmp_path / "videos/dev/c1.mp4"
    said = posemill.predict(tmp_path / "model", video, progress=False)
    assert [each.label in ("a", "b") for each in said] == [True]
    # By the decoder and the engine that the model's data was made with.
    assert str(video) in (package / "read.txt").read_text()


def write_video(path, shade):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
        for number in range(3):
            pixels = np.full((24, 32, 3), shade + number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))


EXAMPLE = Path(__file__).parent.parent / "examples" / "plugin"


def test_the_example_installs_without_a_network_and_goes_the_whole_way(tmp_path):
    # Not by an import: setuptools replaces distutils for all tests that come after.
    if Version(version("setuptools")) < Version("70.1"):
        pytest.skip("setuptools 70.1 builds the example, and comes with torch")
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)  # building leaves files beside the sources
    run(source, "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
        "--target", site, source)  # fmt: skip
    shutil.rmtree(source / "src")  # from here on only what was installed
    said = run(site, "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, source / "tests")
    assert "passed" in said
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        picture = np.zeros((24, 32, 3), np.uint8)
        picture[8:16, 4 + number : 20] = 100
        cv2.imwrite(str(tmp_path / "pictures" / f"{number}.png"), picture)
    run(site, "posemill", "extract", tmp_path / "pictures", "--out", tmp_path / "run", "--engine",
        "silhouette", "--engine-option", "threshold=90", "--workers", 1)  # fmt: skip
    # The ending of the file is known too, and its skeleton to whoever reads it.
    run(site, "posemill", "export", tmp_path / "run", "--out", tmp_path / "points.jsonl")
    shown = json.loads(run(site, "posemill", "view", tmp_path / "points.jsonl", "--json"))
    assert (shown["kind"], shown["skeleton_names"]) == ("jsonl", ["silhouette-5"])
    assert shown["splits"][0]["presence"] == {"body": 1.0}
    lines = (tmp_path / "points.jsonl").read_text().splitlines()
    points = np.array(json.loads(lines[1])["points"])
    np.testing.assert_allclose(points[:, 3, 0] * 32, [4.5, 5.5, 6.5], rtol=1e-5)  # right side


def test_a_broken_package_is_said_once_and_stops_only_what_needs_it(install_entry_points, tmp_path):
    kinds = ("engine", "decoder", "format", "executor")
    folder = install_entry_points(
        {f"posemill.{kind}s": {f"bad-{kind}": f"bad_package:{kind}"} for kind in kinds}
    )
    (folder / "bad_package.py").write_text("raise OSError('half installed')\n")
    write_video(tmp_path / "videos" / "c.mp4", 90)
    videos, out = tmp_path / "videos", tmp_path / "run"
    usual = {"engine": "fake", "executor": "serial", "progress": False}
    posemill.extract(videos, out, **usual)
    posemill.export(out, out=tmp_path / "points.npz", progress=False)
    posemill.view(tmp_path / "points.npz", progress=False)
    message = "of the package 'outside' cannot be imported (OSError: half installed); update it, "
    for kind in ("engine", "decoder", "executor"):
        with pytest.raises(PosemillError, match=re.escape(f"{kind} 'bad-{kind}' {message}")):
            posemill.extract(videos, tmp_path / kind, **{**usual, kind: f"bad-{kind}"})
    with pytest.raises(PosemillError, match=re.escape(f"format 'bad-format' {message}")):
        posemill.export(out, "bad-format", tmp_path / "x")
    done = call(folder, "posemill", "engines")
    assert done.returncode == 0
    assert "holistic" in done.stdout
    assert done.stderr.count(f"engine 'bad-engine' {message}or run: pip uninstall outside") == 1
    done = call(folder, "posemill", "extract", videos, "--out", out, "--engine", "bad-engine")
    assert (done.returncode, done.stderr.count(message)) == (2, 1), done.stderr
    assert "Traceback" not in done.stderr
