"""Runs of the whole-body engine, as a user makes them: all people stored, the files on record."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import posemill
from benchmarks.shared.pose_networks import make_pictures, write_detector, write_pose
from posemill.estimators import open_estimator
from posemill.files import sha256_of


def test_a_run_has_everybody_and_the_sums_of_both_files(tmp_path):
    pictures = [*make_pictures([(320, 240), (640, 300)]), np.zeros((40, 30, 3), np.uint8)]
    (tmp_path / "pictures").mkdir()
    for name, picture in zip("abc", pictures, strict=True):
        assert cv2.imwrite(str(tmp_path / "pictures" / f"{name}.png"), picture[..., ::-1])
    options = {
        "pose": str(write_pose(tmp_path / "pose.onnx", 26)),
        "detector": str(write_detector(tmp_path / "detector.onnx", has_nms=True)),
    }
    run = tmp_path / "run"
    posemill.extract(tmp_path / "pictures", out=run, engine="wholebody", engine_options=options,
                     executor="serial", progress=False)  # fmt: skip
    expected = open_estimator("wholebody", **options).estimate(pictures)
    (clip,) = posemill.open_run(run).clips()
    assert clip.skeleton_name == "halpe-26"
    np.testing.assert_array_equal(clip.points, expected.points)
    assert clip.others.counts.tolist() == expected.others.counts.tolist()
    assert clip.others.counts.sum() > 5
    engine = json.loads((run / "manifest.json").read_text())["engine"]
    for name, path in options.items():
        assert engine[f"sha256 {name}"] == sha256_of(Path(path))
    # Another file under the same name is another engine: the run does not go on with it.
    write_pose(tmp_path / "pose.onnx", 26, seed=5)
    with pytest.raises(posemill.PosemillError, match="sha256 pose"):
        posemill.extract(tmp_path / "pictures", out=run, engine="wholebody",
                         engine_options=options, executor="serial", progress=False)  # fmt: skip
    for name in ("coco", "openpose", "npz", "csv", "parquet"):
        posemill.export(run, name, tmp_path / f"out.{name}", progress=False,
                        person="all" if name in ("coco", "openpose") else "main")  # fmt: skip
    people = json.loads((tmp_path / "out.coco").read_text())["annotations"]
    found = [*expected.scores, *expected.others.scores]
    assert len(people) == sum(bool(scores.any()) for scores in found)
