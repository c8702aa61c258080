import math

import numpy as np
import pytest

from posemill.estimators.landmarks.detection import Detector


def detect(rows, min_score=0.5):
    """Run a detector of one point on some rows: logit, dx, dy, width, height; the others empty."""
    boxes, logits = np.zeros((896, 6), np.float32), np.full(896, -50, np.float32)
    for row, (logit, *box) in rows.items():
        logits[row], boxes[row, :4] = logit, box
        boxes[row, 4:] = 128 * row, 0
    found = Detector(128, (8, 16, 16, 16), min_score=min_score).best(boxes, logits)
    return found.points if found is not None else None


def test_all_detections_come_best_first_each_with_its_box():
    boxes, logits = np.zeros((896, 6), np.float32), np.full(896, -50, np.float32)
    for row, logit, x in ((0, 1.0, 0), (1, 3.0, 0), (2, 2.0, 60), (3, 0.5, 100)):
        logits[row], boxes[row, :4] = logit, (x, 0, 16, 16)
    found = list(Detector(128, (8, 16, 16, 16), min_score=0.5).find(boxes, logits))
    assert [float(one.score) for one in found] == pytest.approx(
        [1 / (1 + math.exp(-logit)) for logit in (3.0, 2.0, 0.5)]
    )
    # the second row stands for itself and the first; centres are half a cell of 8 px from an edge
    np.testing.assert_allclose(found[0].box, np.array([4 - 8, 4 - 8, 16, 16]) / 128, atol=1e-6)
    assert [round(float(one.box[0]) * 128) for one in found] == [-4, 60 + 12 - 8, 100 + 12 - 8]


def at(row):
    return row + 0.5 / 16  # the first 512 anchors are pairs on a grid of 16


@pytest.mark.parametrize(
    ("shift", "width", "is_joined"),
    [
        # Two of 64 x 64 px side by side: (64 - s) / (64 + s) of their union is shared.
        (0, 64, True), (34, 64, True), (35, 64, False), (70, 64, False),
        # 20 x 64 within 64 x 64: 0.3125 of the union; 18 x 64: 0.28.
        (0, 20, True), (0, 18, False),
    ],
)  # fmt: skip
def test_boxes_are_joined_from_an_overlap_of_three_tenths(shift, width, is_joined):
    points = detect({0: (3.0, 0, 0, 64, 64), 1: (3.0, shift, 0, width, 64)})
    assert float(points[0, 0]) == pytest.approx(at(0) + (0.5 if is_joined else 0), rel=1e-5)


def test_the_top_one_wins_and_boxes_without_size_do_not_count():
    points = detect({0: (1.0, 0, 0, 9, 9), 1: (2.0, 99, 99, 9, 9), 2: (3.0, 0, 0, -1, 9),
                     3: (3.0, 0, 0, 9, -1)})  # fmt: skip
    assert float(points[0, 0]) == pytest.approx(at(1), rel=1e-5)
    alone = detect({1: (2.0, 0, 0, 0, 9)})  # no area: it overlaps with nothing, not even itself
    assert float(alone[0, 0]) == pytest.approx(at(1), rel=1e-5)


@pytest.mark.parametrize("min_score", [0.0, 0.2, 0.5, 0.9])
def test_the_threshold_is_a_score_that_counts_itself(min_score):
    logit = math.log(min_score / (1 - min_score)) if min_score else -60.0
    assert detect({1: (logit + 1e-3, 0, 0, 9, 9)}, min_score) is not None
    assert (detect({1: (logit - 1e-3, 0, 0, 9, 9)}, min_score) is None) == (min_score > 0)
    assert detect({1: (0.0, 0, 0, 9, 9)}, 0.5) is not None
    assert detect({1: (500.0, 0, 0, 9, 9)}, 1.0) is not None
