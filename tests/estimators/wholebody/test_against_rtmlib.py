"""Boxes and points are rtmlib's on the same files: by value, and live where it is installed.

The values come from `python -m benchmarks.keypoints.against_rtmlib --golden FILE` (rtmlib 0.0.16).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from benchmarks.keypoints.against_rtmlib import (
    Case,
    Person,
    Rtmlib,
    distance,
    make_golden_cases,
    make_golden_pictures,
    people_of,
)
from benchmarks.shared.pose_networks import (
    make_pictures,
    write_detector,
    write_one_stage,
    write_pose,
)
from posemill.estimators import open_estimator
from posemill.estimators.wholebody.detector import Detector
from posemill.estimators.wholebody.networks import open_file

GOLDEN = Path(__file__).parent / "rtmlib.npz"
NAMES = ("yolox_133", "yolox_nms_26", "rtmdet_17", "picture_133")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return make_golden_cases(tmp_path_factory.mktemp("networks"))


def sorted_boxes(boxes: np.ndarray) -> np.ndarray:
    return boxes[np.lexsort(boxes.T)]


@pytest.mark.parametrize("name", NAMES)
def test_people_are_those_that_rtmlib_found(cases, name):
    expected = np.load(GOLDEN)
    pictures = make_golden_pictures()
    found = open_estimator("wholebody", **cases[name].options).estimate(pictures)
    for row in range(len(pictures)):
        theirs: list[Person] = [
            *zip(expected[f"{name}.{row}.points"], expected[f"{name}.{row}.scores"], strict=True)
        ]
        # The values are of another processor, on which networks add in another order.
        assert distance(people_of(found, row), theirs, score_tolerance=1e-4) < 1e-3


@pytest.mark.parametrize("name", NAMES[:-1])
def test_boxes_are_those_that_rtmlib_found(cases, name):
    expected = np.load(GOLDEN)
    path = str(cases[name].detector)
    session = open_file(path, "detector", runtime="auto", device="cpu", threads=1)
    detector = Detector(session, path, kind="auto", side=None, min_score=None,
                        most_overlap=0.45, batch=1)  # fmt: skip
    assert detector.kind == cases[name].detector_kind
    for row, boxes in enumerate(detector.find(make_golden_pictures())):
        theirs = expected[f"{name}.{row}.boxes"]
        assert len(boxes) == len(theirs)
        np.testing.assert_allclose(sorted_boxes(boxes), sorted_boxes(theirs), atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "has_nms", "classes"), [("yolox", False, 1), ("yolox", True, 3), ("rtmdet", True, 1)]
)
def test_other_weights_and_pictures_give_the_same_too(tmp_path, kind, has_nms, classes):
    pytest.importorskip("rtmlib", reason="make setup installs it, without what it asks for")
    for seed in (1, 2, 3):
        detector = write_detector(tmp_path / "detector.onnx", kind, has_nms=has_nms, seed=seed,
                                  classes=classes, size_wh=(96, 160))  # fmt: skip
        pose = write_pose(tmp_path / "pose.onnx", 26, size_wh=(96, 64), seed=seed)
        case = Case(pose, (96, 64), detector, kind, (96, 160))
        ours, theirs = open_estimator("wholebody", **case.options), Rtmlib(case)
        pictures = make_pictures([(300, 200), (96, 160), (61, 640), (5, 4)], seed=seed)
        found = ours.estimate(pictures)
        for row, picture in enumerate(pictures):
            expected = theirs.people(np.ascontiguousarray(picture[..., ::-1]))
            assert distance(people_of(found, row), expected) < 1e-3


# OpenVINO adds in another order, which these weights magnify: up to 0.02 pixels of the widest
# picture, 3e-5 of its 640. Scores come out of the same sigmoid as points. Near the least score that
# ONNX Runtime's can give, 2**-25, the point may be there for one of the two only.
@pytest.mark.parametrize(
    ("runtime", "tolerance", "rounding"), [("onnxruntime", 1e-3, 0.0), ("openvino", 0.02, 2**-24)]
)
def test_people_of_rtmo_are_those_that_rtmlib_finds(tmp_path, runtime, tolerance, rounding):
    pytest.importorskip(runtime)
    rtmlib = pytest.importorskip(
        "rtmlib", reason="make setup installs it, without what it asks for"
    )
    for seed in (1, 2, 3):
        path = str(write_one_stage(tmp_path / "rtmo.onnx", seed=seed))
        theirs = rtmlib.RTMO(path, model_input_size=(96, 128), backend="onnxruntime")
        pictures = make_pictures([(300, 200), (128, 96), (61, 640), (50, 44)], seed=seed)
        found = open_estimator("wholebody", pose=path, runtime=runtime).estimate(pictures)
        for row, picture in enumerate(pictures):
            points, scores = theirs(np.ascontiguousarray(picture[..., ::-1]))
            expected: list[Person] = [*zip(points, scores, strict=True)]
            assert len(expected) > 1
            assert (
                distance(
                    people_of(found, row),
                    expected,
                    score_tolerance=max(tolerance / 640, 1e-5),
                    rounding=rounding,
                )
                < tolerance
            )
