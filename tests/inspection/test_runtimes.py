"""Engines on every installed runtime, beside the one they take by themselves."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import posemill
from posemill.commands import progress
from posemill.errors import ConfigError, SourceError
from posemill.inspection.runtimes import compare_points, runtimes_of


def test_installed_runtimes_are_measured_beside_the_default(tmp_path, monkeypatch, capsys):
    for package in ("onnx", "onnxruntime", "openvino"):
        pytest.importorskip(package)
    from benchmarks.shared.pose_networks import make_pictures, write_pose

    for index, picture in enumerate(make_pictures([(60, 90), (40, 30)])):
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture)
    pose = str(write_pose(tmp_path / "pose.onnx", 17))
    monkeypatch.setitem(progress._SECONDS, "log", 0.0)
    usual, other = posemill.bench_engine(
        tmp_path, engine="wholebody", engine_options={"pose": pose}, rounds=1, progress=True
    )
    total = len(runtimes_of("wholebody"))
    assert f"{total} / {total}" in capsys.readouterr().err.splitlines()[-1]
    assert usual.is_default
    assert not other.is_default
    assert [speed.runtime.split()[0] for speed in (usual, other)] == ["onnxruntime", "openvino"]
    assert usual.refused == other.refused == ""
    assert other.agreement == 1
    assert other.largest_pixels < 1
    assert min(usual.milliseconds, usual.memory_mb) > 0


def test_distances_are_those_of_points_that_both_found():
    frames = [np.zeros((100, 200, 3), np.uint8)]
    default = np.zeros((1, 4, 3), np.float32)
    points = default.copy()
    points[0, 1, 0] = 0.01  # 2 px of 200
    points[0, 2] = np.nan
    distances = compare_points(points, default, frames)
    assert distances["agreement"] == 0.75
    assert distances["median_pixels"] == 0
    assert distances["largest_pixels"] == pytest.approx(2)


def test_an_engine_without_a_choice_and_a_missing_source_are_refused():
    with pytest.raises(ConfigError):
        runtimes_of("fake")
    with pytest.raises(SourceError):
        posemill.bench_engine("nowhere", progress=False)
