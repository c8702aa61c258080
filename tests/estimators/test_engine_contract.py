"""Every row of `ESTIMATORS` keeps the contract of engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from posemill.estimators import ESTIMATORS
from posemill.records import Frame
from posemill.testing import EngineContract


class TestHolistic(EngineContract):
    name = "holistic"

    @pytest.fixture(autouse=True)
    def _models(self, model_files: dict[str, Path]) -> None:
        """Skips where the model files cannot be had."""

    @pytest.fixture
    def frames(self, photo: np.ndarray) -> list[Frame]:
        """A person, the same cut and mirrored, grey, one pixel."""
        grey = np.full((48, 64, 3), 128, np.uint8)
        cut = np.ascontiguousarray(photo[:400, 60:])
        return [photo, cut, np.ascontiguousarray(photo[:, ::-1]), grey, grey[:1, :1]]


class TestRefinedHolistic(TestHolistic):
    options: ClassVar = {"refine_face_landmarks": True}

    @pytest.fixture(autouse=True)
    def _attention(self, need_model: Callable[[str], Path]) -> None:
        """Skips where the model file cannot be had."""
        need_model("face_landmark_with_attention")


class TestOpenPose(EngineContract):
    name = "openpose"

    @pytest.fixture(autouse=True)
    def _models(self, need_model: Callable[[str], Path]) -> None:
        """Skips where the model file cannot be had."""
        need_model("mobilenet_thin")

    @pytest.fixture
    def frames(self, photo: np.ndarray) -> list[Frame]:
        """A person, two side by side, grey, a strip, one pixel."""
        small = np.ascontiguousarray(photo[::2, ::2])
        grey = np.full((48, 64, 3), 128, np.uint8)
        return [
            small,
            np.concatenate([small, small[:, ::-1]], axis=1),
            grey,
            grey[:4],
            grey[:1, :1],
        ]


class TestWholeBody(EngineContract):
    name = "wholebody"

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> None:
        """Small networks with random weights."""
        for package in ("onnx", "onnxruntime"):
            pytest.importorskip(package)
        from benchmarks.shared.pose_networks import write_detector, write_pose

        self.options = {
            "pose": str(write_pose(tmp_path / "pose.onnx")),
            "detector": str(write_detector(tmp_path / "detector.onnx")),
        }

    @pytest.fixture
    def frames(self) -> list[Frame]:
        """Several people, others, grey, a strip, one pixel."""
        from benchmarks.shared.pose_networks import make_pictures

        grey = np.full((48, 64, 3), 128, np.uint8)
        return [*make_pictures([(320, 240), (640, 300)]), grey, grey[:4], grey[:1, :1]]


class TestMoveNet(TestOpenPose):
    name = "movenet"
    options: ClassVar = {"network": "lightning"}

    @pytest.fixture(autouse=True)
    def _models(self, need_model: Callable[[str], Path]) -> None:
        """Skips where the model files cannot be had."""
        pytest.importorskip("onnxruntime")
        for name in ("nanodet", "movenet-lightning"):
            need_model(name)


class TestFake(EngineContract):
    name = "fake"


def test_every_engine_has_its_suite() -> None:
    elsewhere = {"mediapipe"}  # test_stock_mediapipe.py
    suites = (TestHolistic, TestOpenPose, TestMoveNet, TestWholeBody, TestFake)
    assert set(ESTIMATORS) == {suite.name for suite in suites} | elsewhere
