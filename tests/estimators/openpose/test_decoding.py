import numpy as np
import pytest

from posemill.estimators.openpose.decoding import (
    _LIMBS,
    MIRRORED_MAPS,
    MIRRORED_SIGNS,
    NUM_MAPS,
    NUM_POINTS,
    Thresholds,
    find_people,
)
from posemill.skeletons import get_skeleton

USUAL = Thresholds()
# A person who stands and faces us, in units of their height; x, y of the 18 points.
STANDING = np.array([
    (0.00, 0.10), (0.00, 0.20), (-0.10, 0.20), (-0.14, 0.35), (-0.16, 0.48), (0.10, 0.20),
    (0.14, 0.35), (0.16, 0.48), (-0.06, 0.52), (-0.07, 0.74), (-0.08, 0.96), (0.06, 0.52),
    (0.07, 0.74), (0.08, 0.96), (-0.02, 0.08), (0.02, 0.08), (-0.05, 0.09), (0.05, 0.09),
], np.float32)  # fmt: skip


def person(x, y, height):
    """Return the 18 points, in cells, of a person whose head is at x and y."""
    return STANDING * np.float32(height) + np.array([x, y], np.float32)


def draw(people, shape):
    """Return `(57, height, width)`; a point that is NaN is not drawn."""
    height, width = shape
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    maps = np.zeros((NUM_MAPS, height, width), np.float32)
    for points in people:
        for number, (x, y) in enumerate(points):
            if not np.isnan(x):
                spot = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * 0.9**2))
                maps[number] = np.maximum(maps[number], spot)
        for start, stop, channel in _LIMBS:
            _draw_limb(maps[NUM_POINTS + 1 + channel :][:2], points[start], points[stop])
    maps[NUM_POINTS] = 1 - maps[:NUM_POINTS].max(0)
    return maps


def _draw_limb(maps, one, other):
    length = np.hypot(*(other - one))
    if np.isnan(length) or not length:
        return
    along = (other - one) / length
    rows, columns = np.mgrid[: maps.shape[1], : maps.shape[2]].astype(np.float32)
    x, y = columns - one[0], rows - one[1]
    share, off = x * along[0] + y * along[1], np.abs(x * along[1] - y * along[0])
    on = (share >= -1) & (share <= length + 1) & (off <= 1)
    maps[:, on] = along[:, None]


def close_to(found, drawn, *, within=0.35):
    """Raise unless every drawn person is one that was found, and nobody else was."""
    assert len(found.points) == len(drawn)
    left = list(range(len(drawn)))
    for points in drawn:
        there = ~np.isnan(points[:, 0])
        distances = [np.abs(found.points[i][there] - points[there]).max() for i in left]
        best = int(np.nanargmin(distances))
        assert distances[best] < within
        assert (np.isnan(found.points[left[best], :, 0]) == ~there).all()
        del left[best]


def test_one_person_is_found_to_a_third_of_a_cell_and_two_keep_their_own_limbs():
    drawn = [person(20.3, 4.6, 38)]
    found = find_people(draw(drawn, (46, 40)), USUAL)
    close_to(found, drawn)
    assert (found.scores > 0.5).all()
    assert found.totals.shape == (1,)
    assert 0.9 < found.totals[0] < 2.1  # a mean of peaks below 1 plus limbs below 1
    drawn = [person(20, 4, 38), person(27.5, 6, 38)]
    close_to(find_people(draw(drawn, (48, 50)), USUAL), drawn)


@pytest.mark.parametrize("number", [2, 5, 10])
def test_everyone_of_a_row_of_people_is_found_once(number):
    drawn = [person(10 + 17.2 * i, 4 + (i % 3), 36) for i in range(number)]
    close_to(find_people(draw(drawn, (46, 17 * number + 12)), USUAL), drawn)


def test_two_halves_without_a_neck_are_two_people_and_with_one_they_are_one():
    whole = person(20, 5, 38)
    beheaded = whole.copy()
    beheaded[1] = np.nan
    # Arms and head hang together by ears and shoulders; legs by nothing.
    assert len(find_people(draw([whole], (46, 40)), USUAL).points) == 1
    found = find_people(draw([beheaded], (46, 40)), USUAL)
    assert len(found.points) >= 1
    assert np.isnan(found.points[:, 1]).all()


def test_nobody_is_found_in_nothing_and_low_noise_and_in_loud_noise_the_same_as_ever():
    assert len(find_people(np.zeros((NUM_MAPS, 12, 9), np.float32), USUAL).points) == 0
    noise = np.random.default_rng(0).random((NUM_MAPS, 46, 60), np.float32) * 0.09
    found = find_people(noise, USUAL)
    assert found.points.shape == (0, 18, 2)
    assert found.scores.shape == (0, 18)
    noise = np.random.default_rng(0).normal(0, 1, (NUM_MAPS, 60, 80)).astype(np.float32)
    found = find_people(noise, USUAL)
    assert found.points.shape[1:] == (18, 2)
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    found = find_people(noise[:, :15, :20], USUAL)
    assert (np.nanmean(found.points), found.totals.sum()) == pytest.approx((8.029608, 80.1928))


def test_fewer_parts_than_asked_for_and_ears_with_shoulders_alone_are_nobody():
    three = np.full((18, 2), np.nan, np.float32)
    three[[1, 2, 3]] = person(20, 5, 38)[[1, 2, 3]]
    maps = draw([three], (46, 40))
    assert len(find_people(maps, USUAL).points) == 0
    assert len(find_people(maps, Thresholds(parts=3)).points) == 1
    assert len(find_people(maps, Thresholds(parts=3, person=3.0)).points) == 0
    points = np.full((18, 2), np.nan, np.float32)
    points[[2, 16]] = person(20, 5, 38)[[2, 16]]
    assert len(find_people(draw([points], (46, 40)), Thresholds(parts=1, person=0)).points) == 0


def test_a_limb_longer_than_half_the_picture_is_less_likely():
    reaching = person(60, 1, 28)
    reaching[3, 0] -= 40  # the right elbow
    low, high = (find_people(draw([reaching], (rows, 90)), USUAL) for rows in (30, 90))
    # Upper and lower arm count (0.5 * 30 / 40 - 1) less, in a mean over 18 points.
    assert high.totals[0] - low.totals[0] == pytest.approx(2 * 0.62 / 18, abs=0.01)


def test_the_mirror_image_of_maps_gives_the_mirrored_people():
    drawn = [person(14.2, 4, 36), person(32.6, 5, 34)]
    maps = draw(drawn, (46, 48))
    mirrored = np.ascontiguousarray(maps[MIRRORED_MAPS, :, ::-1] * MIRRORED_SIGNS[:, None, None])
    swap = list(get_skeleton("openpose-18").mirror)
    expected = [(np.array([47, 0]) + points * [-1, 1])[swap].astype(np.float32) for points in drawn]
    close_to(find_people(mirrored, USUAL), expected)
