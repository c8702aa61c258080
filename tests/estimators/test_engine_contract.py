"""Every row of `ESTIMATORS` keeps the contract of engines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from posemill.errors import DeviceError
from posemill.estimators import ESTIMATORS, Estimator, open_estimator
from posemill.records import Frame
from posemill.testing import EngineContract
from posemill.testing.engines import same

NO_PICTURES = {
    "grey": np.zeros((8, 8), np.uint8),
    "with alpha": np.zeros((8, 8, 4), np.uint8),
    "16 bits": np.zeros((8, 8, 3), np.uint16),
    "numbers": np.zeros((8, 8, 3), np.float32),
    "empty": np.zeros((0, 8, 3), np.uint8),
}


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[[str, dict[str, Any]], Estimator]]:
    """Return a function that opens an engine; with the same options it is the same one."""
    opened: dict[str, Estimator] = {}

    def get(name: str, options: dict[str, Any]) -> Estimator:
        key = f"{name} {options}"
        if key not in opened:
            opened[key] = open_estimator(name, **options)
        return opened[key]

    yield get
    for engine in opened.values():
        engine.close()


class OurContract(EngineContract):
    """What all of ours do beside it."""

    @pytest.fixture
    def engine(self, engines: Callable[[str, dict[str, Any]], Estimator]) -> Estimator:
        """One for all tests: what an earlier one left behind must not show."""
        return engines(self.name, dict(self.options))

    def test_what_is_no_picture_is_refused_with_its_shape(
        self, engine: Estimator, frames: list[Frame]
    ) -> None:
        for wrong in NO_PICTURES.values():
            said = f"frame: expected (height, width, 3) uint8 RGB, got {wrong.shape} {wrong.dtype}"
            with pytest.raises(ValueError, match=re.escape(said)):
                engine.estimate([frames[0], wrong])

    def test_frames_in_any_order_of_memory_give_the_same(
        self, engine: Estimator, frames: list[Frame]
    ) -> None:
        expected = engine.estimate(frames[:1])
        same(engine.estimate([np.asfortranarray(frames[0])]), expected, [0])

    def test_a_gpu_that_is_not_there_is_said(self) -> None:
        onnxruntime = pytest.importorskip("onnxruntime")
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            pytest.skip("there is a GPU here")
        for device in ("cuda:0", "tensorrt:1"):
            with pytest.raises(DeviceError, match=f"device {device} asked for, but ONNX Runtime "):
                open_estimator(self.name, device=device, **self.options)


class TestHolistic(OurContract):
    name = "holistic"

    @pytest.fixture(autouse=True)
    def _models(self, model_files: dict[str, Path]) -> None:
        """Skips where the model files cannot be had."""

    @pytest.fixture
    def frames(self, photo: np.ndarray) -> list[Frame]:
        """A person, the same cut and mirrored, grey, one pixel."""
        grey = np.full((48, 64, 3), 128, np.uint8)
        return [photo, np.ascontiguousarray(photo[:400, :60:-1]), grey, grey[:1, :1]]


class TestHolisticOnOnnxRuntime(TestHolistic):
    options: ClassVar = {"runtime": "onnxruntime"}

    @pytest.fixture(autouse=True)
    def _runtime(self) -> None:
        """Skips where it is not installed."""
        pytest.importorskip("onnxruntime")


class TestRefinedHolistic(TestHolistic):
    options: ClassVar = {"refine_face_landmarks": True}

    @pytest.fixture(autouse=True)
    def _attention(self, need_model: Callable[[str], Path]) -> None:
        """Skips where the model file cannot be had."""
        need_model("face_landmark_with_attention")


class TestHands(TestHolistic):
    name = "hands"
    options: ClassVar = {"min_detection_confidence": 0.1, "min_tracking_confidence": 0.1}

    @pytest.fixture(autouse=True)
    def _palms(self, need_model: Callable[[str], Path]) -> None:
        """Skips where the model file cannot be had."""
        need_model("palm_detection_full")


class TestFace(TestHolistic):
    name = "face"
    options: ClassVar = {"max_num_faces": 2}


class TestRefinedFace(TestRefinedHolistic):
    name = "face"
    options: ClassVar = {"refine_landmarks": True}


class TestPose(TestHolistic):
    name = "pose"


class TestOpenPose(OurContract):
    name = "openpose"
    options: ClassVar = {"height": 184}  # half of the default: a quarter of the work

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


class TestWholeBody(OurContract):
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
    # test_stock_mediapipe.py
    elsewhere = {"mediapipe", "mediapipe-hands", "mediapipe-face", "mediapipe-pose"}
    suites = (
        TestHolistic,
        TestHands,
        TestFace,
        TestPose,
        TestOpenPose,
        TestMoveNet,
        TestWholeBody,
        TestFake,
    )
    assert set(ESTIMATORS) == {suite.name for suite in suites} | elsewhere
