"""Boxes and points are rtmlib's on the same files: by value, and live where it is installed.

The values come from `python -m benchmarks.keypoints.against_rtmlib --golden FILE` (rtmlib 0.0.16).
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from benchmarks.keypoints.against_rtmlib import (
    distance,
    make_golden_cases,
    make_golden_pictures,
    people_of,
)
from benchmarks.shared.pose_networks import make_pictures, write_one_stage
from posemill.estimators import open_estimator

GOLDEN = Path(__file__).parent / "rtmlib.npz"
NAMES = ("yolox_133", "yolox_nms_26", "rtmdet_17", "picture_133")


@pytest.mark.parametrize("name", NAMES)
def test_people_are_those_that_rtmlib_found(tmp_path, name):
    expected, case = np.load(GOLDEN), make_golden_cases(tmp_path)[name]
    pictures = make_golden_pictures()
    found = open_estimator("wholebody", **case.options).estimate(pictures)
    for row in range(len(pictures)):
        theirs = [
            *zip(expected[f"{name}.{row}.points"], expected[f"{name}.{row}.scores"], strict=True)
        ]
        # The values are of another processor, on which networks add in another order.
        assert distance(people_of(found, row), theirs, score_tolerance=1e-4) < 1e-3


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
            expected = [*zip(points, scores, strict=True)]
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
