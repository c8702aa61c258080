"""Squares of a frame, boxes out of NanoDet's maps, points out of MoveNet's: by value."""

import cv2
import numpy as np
import pytest

from posemill.estimators.movenet.detection import find_boxes
from posemill.estimators.movenet.poses import drop_same_people, find_points
from posemill.estimators.movenet.squares import cut_square

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("corner", "side"), [((20, 9), 40), ((-13, -7), 90), ((30, 20), 64), ((50, 40), 16)]
)
def test_a_place_in_the_square_is_that_place_of_the_frame(corner, side):
    frame = np.zeros((48, 64, 3), np.uint8)
    cv2.circle(frame, (55, 44), 2, (255, 255, 255), -1)
    square = cut_square(frame, corner, side, size=128, colour=0)
    assert square.picture.shape == (128, 128, 3)
    rows, columns = np.nonzero(square.picture[..., 0] > 127)
    seen = np.array([columns.mean(), rows.mean()]) + 0.5
    np.testing.assert_allclose(seen * square.scale + square.shift, [55.5, 44.5], atol=0.7)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (3000, 2)])
def test_strips_and_single_pixels_fit(shape):
    frame = np.full((*shape, 3), 200, np.uint8)
    square = cut_square(frame, (0, 0), max(shape), size=64, colour=0)
    assert (square.picture[0, 0] == 200).all()
    # The far corner of the picture's part is that of the frame.
    seen = np.nonzero(square.picture[..., 0])
    far = np.array([seen[1].max() + 1, seen[0].max() + 1])
    np.testing.assert_allclose(far * square.scale + square.shift, shape[::-1], rtol=1e-5)


def test_boxes_are_the_expected_sides_around_the_centre_of_a_cell():
    maps = [np.full((124, n, n), -20.0, np.float32) for n in (52, 26, 13)]
    for stride in range(3):
        maps[stride][80:] = 0
    maps[1][0, 5, 3] = 0  # a half
    maps[1][80:, 5, 3] = -50
    # Left 2 strides for sure, top between 3 and 4, right 10, bottom evenly over all eleven.
    for side, bins in enumerate(([2], [3, 4], [10], range(11))):
        maps[1][[80 + 11 * side + each for each in bins], 5, 3] = 1
    boxes, scores = find_boxes(maps, min_score=0.2)
    np.testing.assert_allclose(scores, [0.5])
    x, y = 3.5 * 16, 5.5 * 16
    np.testing.assert_allclose(boxes, [[x - 32, y - 56, x + 160, y + 80]], atol=1e-3)
    assert find_boxes(maps, min_score=0.51)[0].shape == (0, 4)
    # Other classes do not count, and a cell that is rather one of them is no person.
    maps[0][16] = 9
    assert len(find_boxes(maps, min_score=0.2)[0]) == 1
    maps[1][16, 5, 3] = 0.1
    assert not len(find_boxes(maps, min_score=0.2)[0])


def points_one_by_one(heat, centre, ways, offsets):
    """Return what the operators behind MoveNet's maps compute, point by point."""
    cells = len(heat[0])
    y, x = divmod(int(centre[0].argmax()), cells)
    found = []
    for point in range(17):
        expected_y, expected_x = y + ways[2 * point, y, x], x + ways[2 * point + 1, y, x]
        best, place = -1.0, (0, 0)
        for row in range(cells):
            for column in range(cells):
                away = float(np.hypot(row - expected_y, column - expected_x))
                weighed = float(heat[point, row, column]) / (away + 1.8)
                if weighed > best:
                    best, place = weighed, (row, column)
        row, column = place
        down, across = offsets[2 * point : 2 * point + 2, row, column]
        found.append(((column + across) / cells, (row + down) / cells, heat[point, row, column]))
    return found


def test_points_of_several_people_are_those_of_each_alone_by_a_plain_loop():
    """The published operators themselves were run by TensorFlow.js 4.22 on three real pictures.

    Points of thunder differ by at most 1.2e-7 of the picture, scores by 1.6e-6. Those of lightning
    differ by 1.9e-4, as its file has 1/48 in half precision and we do not; with its number, by
    4e-7.
    """
    maps = [RNG.random((3, channels, 6, 6)).astype(np.float32) for channels in (17, 1, 34, 34)]
    maps[2] = maps[2] * 6 - 3
    points, scores = find_points(maps)
    assert points.shape == (3, 17, 2)
    for person in range(3):
        expected = points_one_by_one(*(each[person] for each in maps))
        np.testing.assert_allclose(
            np.concatenate([points[person], scores[person, :, None]], axis=1), expected, atol=1e-6
        )


def test_the_same_person_twice_is_one_and_neighbours_are_two():
    person = RNG.random((17, 2)) * 100
    points = np.stack([person, person + 1.5, person + 60]).astype(np.float32)
    totals, areas = np.array([0.4, 0.9, 0.1], np.float32), np.full(3, 1e4, np.float32)
    assert drop_same_people(points, totals, areas, most_alike=0.75).tolist() == [1, 2]
    # The same distance is a long way between small people.
    assert drop_same_people(points, totals, areas / 1e4, most_alike=0.75).tolist() == [1, 0, 2]
    nobody = np.zeros(0, np.float32)
    assert len(drop_same_people(points[:0], nobody, nobody, most_alike=0.75)) == 0
