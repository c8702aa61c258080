"""Every row of `ESTIMATORS` keeps the contract of engines."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np
import pytest

from posemill.errors import DeviceError
from posemill.estimators import ESTIMATORS, open_estimator
from posemill.testing import EngineContract
from posemill.testing.engines import same

# Grey, with alpha, 16 bits, numbers, empty.
NO_PICTURES = [((8, 8), "u1"), ((8, 8, 4), "u1"), ((8, 8, 3), "u2"), ((8, 8, 3), "f4"),
               ((0, 8, 3), "u1")]  # fmt: skip


@pytest.fixture(scope="module")
def engines():
    """Return a function that opens an engine; with the same options it is the same one."""
    opened = {}

    def get(name, options):
        key = f"{name} {options}"
        if key not in opened:
            opened[key] = open_estimator(name, **options)
        return opened[key]

    yield get
    for engine in opened.values():
        engine.close()


class OurContract(EngineContract):
    """What all of ours do beside it."""

    # It skips where they cannot be had.
    models: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @pytest.fixture(autouse=True)
    def _needs(self, need_model):
        for package in self.packages:
            pytest.importorskip(package)
        for name in self.models:
            need_model(name)

    @pytest.fixture
    def engine(self, engines):
        """One for all tests: what an earlier one left behind must not show."""
        return engines(self.name, dict(self.options))

    def test_what_is_no_picture_is_refused_with_its_shape(self, engine, frames):
        for shape, kind in NO_PICTURES:
            wrong = np.zeros(shape, kind)
            said = f"frame: expected (height, width, 3) uint8 RGB, got {wrong.shape} {wrong.dtype}"
            with pytest.raises(ValueError, match=re.escape(said)):
                engine.estimate([frames[0], wrong])

    def test_frames_in_any_order_of_memory_give_the_same(self, engine, frames):
        expected = engine.estimate(frames[:1])
        same(engine.estimate([np.asfortranarray(frames[0])]), expected, [0])

    def test_a_gpu_that_is_not_there_is_said(self):
        onnxruntime = pytest.importorskip("onnxruntime")
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            pytest.skip("there is a GPU here")
        for device in ("cuda:0", "tensorrt:1"):
            with pytest.raises(DeviceError, match=f"device {device} asked for, but ONNX Runtime "):
                open_estimator(self.name, device=device, **self.options)


@pytest.mark.usefixtures("model_files")
class TestHolistic(OurContract):
    name = "holistic"

    @pytest.fixture
    def frames(self, photo):
        """A person, the same cut and mirrored, grey, one pixel."""
        grey = np.full((48, 64, 3), 128, np.uint8)
        return [photo, np.ascontiguousarray(photo[:400, :60:-1]), grey, grey[:1, :1]]


class TestHolisticOnOnnxRuntime(TestHolistic):
    options: ClassVar = {"runtime": "onnxruntime"}
    packages = ("onnxruntime",)


class TestRefinedHolistic(TestHolistic):
    options: ClassVar = {"refine_face_landmarks": True}
    models = ("face_landmark_with_attention",)


class TestHands(TestHolistic):
    name = "hands"
    options: ClassVar = {"min_detection_confidence": 0.1, "min_tracking_confidence": 0.1}
    models = ("palm_detection_full",)


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
    models = ("mobilenet_thin",)

    @pytest.fixture
    def frames(self, photo):
        """A person, two side by side, grey, a strip, one pixel."""
        small = np.ascontiguousarray(photo[::2, ::2])
        pair = np.concatenate([small, small[:, ::-1]], axis=1)
        grey = np.full((48, 64, 3), 128, np.uint8)
        return [small, pair, grey, grey[:4], grey[:1, :1]]


class TestMoveNet(TestOpenPose):
    name = "movenet"
    options: ClassVar = {"network": "lightning"}
    models = ("nanodet", "movenet-lightning")
    packages = ("onnxruntime",)


class TestWholeBody(OurContract):
    name = "wholebody"
    packages = ("onnx", "onnxruntime")

    @pytest.fixture(autouse=True)
    def _files(self, _needs, tmp_path):
        """Small networks with random weights."""
        from benchmarks.shared.pose_networks import write_detector, write_pose

        self.options = {
            "pose": str(write_pose(tmp_path / "pose.onnx")),
            "detector": str(write_detector(tmp_path / "detector.onnx")),
        }

    @pytest.fixture
    def frames(self):
        """Several people, others, grey, a strip, one pixel."""
        from benchmarks.shared.pose_networks import make_pictures

        grey = np.full((48, 64, 3), 128, np.uint8)
        return [*make_pictures([(320, 240), (640, 300)]), grey, grey[:4], grey[:1, :1]]


class TestFake(EngineContract):
    name = "fake"

    def test_the_order_of_frames_matters_and_a_dark_one_shows_nobody(self):
        """So tests can see lost frames."""
        frames = np.random.default_rng(3).integers(9, 256, (4, 8, 6, 3), np.uint8)
        engine = open_estimator("fake")

        def last_of(*order):
            state = engine.new_state()
            return [engine.estimate([frames[index]], [state]) for index in order][-1].points

        assert not np.array_equal(last_of(0, 1, 3), last_of(1, 0, 3))
        assert not np.array_equal(last_of(0, 1, 3), last_of(0, 3))
        dark = engine.estimate([np.full((4, 4, 3), 7, np.uint8)])
        assert np.isnan(dark.points).all()


def test_every_engine_has_its_suite():
    here = {each.name for each in globals().values() if hasattr(each, "options")}
    elsewhere = {"mediapipe", "mediapipe-hands", "mediapipe-face", "mediapipe-pose"}
    assert set(ESTIMATORS) == here - {""} | elsewhere  # those are in test_stock_mediapipe.py
