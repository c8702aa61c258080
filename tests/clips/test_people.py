import numpy as np
import pytest
from made_up_people import make_crowd

from posemill.clips.people import choose_person, parse_person
from posemill.errors import ConfigError
from posemill.records import PoseClip

SHAPE = np.random.default_rng(0).random((18, 2)).astype(np.float32)
SHAPE -= SHAPE.min(0)
SHAPE /= SHAPE.max(0)  # a person's box is exactly as large as asked for


def person(x, y, size):
    """Return points in a square box whose left upper corner is there."""
    flat = SHAPE * size + [x, y]
    return np.concatenate([flat, np.zeros((18, 1))], axis=1).astype(np.float32)


def test_the_main_person_is_followed_when_another_is_larger_for_a_while():
    left = [person(0.1 + 0.005 * t, 0.2, 0.4) for t in range(10)]
    # On the right somebody leans forward in three frames.
    right = [person(0.6, 0.2, 0.45 if t in (4, 5, 6) else 0.3) for t in range(10)]
    frames = [
        sorted(pair, key=lambda p: -np.ptp(p[:, 0])) for pair in zip(left, right, strict=True)
    ]
    main = choose_person(make_crowd(frames), "main")
    np.testing.assert_allclose(main.points, np.stack(left))
    assert main.others is None
    np.testing.assert_allclose(choose_person(make_crowd(frames), 2).points, np.stack(right))
    np.testing.assert_array_equal(main.scores[3], np.full(18, 0.9, np.float32))
    np.testing.assert_array_equal(main.scores[5], np.full(18, 0.5, np.float32))


def test_where_the_followed_person_was_not_found_there_are_no_points():
    left = [[person(0.1, 0.2, 0.4)], [person(0.1, 0.2, 0.4)], [], [person(0.1, 0.2, 0.4)]]
    frames = [[*people, person(0.7, 0.2, 0.2)] for people in left]
    main = choose_person(make_crowd(frames), 1)
    assert np.isnan(main.points[2]).all()
    assert (main.scores[2] == 0).all()
    assert not np.isnan(main.points[[0, 1, 3]]).any()


def test_who_is_away_too_long_is_somebody_new():
    for gap, number in ((26, 1), (27, 2)):
        here = [person(0.1, 0.1, 0.4), person(0.6, 0.6, 0.3)]
        frames = [here, here, *[[person(0.6, 0.6, 0.3)]] * (gap - 1), here, here, here]
        clip = make_crowd(frames)
        upper = [choose_person(clip, n).points[:, 0, 0] < 0.5 for n in (1, 2, 3)]
        with_both = [n for n, where in enumerate(upper, start=1) if where[0] or where[-1]]
        assert len(with_both) == number


def test_pictures_that_stand_alone_have_their_own_largest():
    rng = np.random.default_rng(3)
    frames = []
    for _ in range(12):
        x, y = rng.random(2) * 0.5
        frames.append([person(x, y, 0.3), person(1 - x, 1 - y, 0.2), person(x / 2, y, 0.1)])
    for number in (1, 2, 3):
        chosen = choose_person(make_crowd(frames), number)
        np.testing.assert_array_equal(
            chosen.points, np.stack([each[number - 1] for each in frames])
        )
    assert np.isnan(choose_person(make_crowd(frames), 4).points).all()


def test_where_nobody_else_was_found_a_clip_is_of_its_person_or_of_nobody():
    clip = make_crowd([[person(0, 0, 0.3)], []])
    main = choose_person(clip, "main")
    assert main.others is None
    np.testing.assert_array_equal(main.points, clip.points)
    for alone in (clip, make_crowd([[], []])):
        assert np.isnan(choose_person(alone, 2).points).all()
    clip = make_crowd([[person(0, 0, 0.3), person(0.5, 0.5, 0.2)]])
    assert choose_person(clip, "all") is clip
    alone = PoseClip(clip.points, clip.scores, clip.sizes_wh, "openpose-18")
    assert choose_person(alone, 2) is alone


def test_words_and_numbers_of_people_and_other_words():
    assert [parse_person(text) for text in ("main", "ALL", " 2 ", 3)] == ["main", "all", 2, 3]
    message = "person: expected main, all, or a number from 1 on, got"
    for text in ("0", "-1", "second", "", "1.5", "²"):
        with pytest.raises(ConfigError, match=message):
            parse_person(text)
