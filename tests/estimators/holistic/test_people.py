"""Several people: each as if they were alone, in pictures and in clips."""

import cv2
import numpy as np
import pytest

from posemill.errors import ConfigError
from posemill.estimators import engine_info, open_estimator
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.landmarks.body_state import PeopleState
from posemill.tracker import MAX_MISSING


@pytest.fixture(scope="module")
def one(model_files):
    estimator = HolisticEstimator(min_detection_confidence=0.3)
    yield estimator
    estimator.close()


@pytest.fixture(scope="module")
def everybody(model_files):
    estimator = HolisticEstimator(people="all", search_every=2, min_detection_confidence=0.3)
    yield estimator
    estimator.close()


@pytest.fixture(scope="module")
def person(photo):
    return np.asarray(cv2.resize(photo, (256, 256), interpolation=cv2.INTER_AREA))


def beside(*pictures):
    return np.ascontiguousarray(np.concatenate(pictures, axis=1))


def test_somebody_alone_is_to_the_bit_what_the_engine_of_one_finds(one, everybody, photo):
    black = np.zeros_like(photo)
    frames = [photo, np.roll(photo, 9, axis=1), black, photo, black, black, photo]
    states = one.new_state(), everybody.new_state()
    for frame in frames:
        for chosen in (states, None):
            expected = one.estimate([frame], chosen and [chosen[0]])
            found = everybody.estimate([frame], chosen and [chosen[1]])
            np.testing.assert_array_equal(found.points, expected.points)
            np.testing.assert_array_equal(found.scores, expected.scores)
            assert (found.others.counts.tolist(), found.world) == ([0], None)


def test_everybody_has_body_face_and_a_state_of_their_own(one, everybody, person):
    three = beside(person, person[:, ::-1], person)
    state = everybody.new_state()
    for step in range(3):
        frame = np.roll(three, 3 * step, axis=0)
        before = state.copy()
        (people,) = everybody.find([frame], [state])
        assert len(people) == len({id(p.state) for p in people}) == 3
        places = sorted(p.body.points[0, 0] for p in people if p.body is not None)
        assert places[0] < 1 / 3 < places[1] < 2 / 3 < places[2]
        assert all("face" in p.parts for p in people)
        # Whoever was followed is what the engine of one gives if it knows nobody else.
        for known, found in zip(before.people, people, strict=False):
            if known.next_rect is not None:
                (alone,) = one.find([frame], [PeopleState([known])])[0]
                np.testing.assert_array_equal(found.body.landmarks, alone.body.landmarks)
                np.testing.assert_array_equal(
                    found.parts["face"].points, alone.parts["face"].points
                )


def test_who_is_new_in_a_group_is_followed_from_where_the_detector_sees_them_larger(
    one, everybody, person
):
    pair = beside(person, person[:, ::-1])
    regions = []
    for state in (None, everybody.new_state()):
        (people,) = everybody.find([pair], None if state is None else [state])
        regions.append(sorted((each.rect for each in people), key=lambda rect: rect.center_x))
    for number, picture in enumerate((person, person[:, ::-1])):
        ((alone,),) = one.find([np.ascontiguousarray(picture)])
        expected = (alone.rect.center_x + number) * 256, alone.rect.center_y * 256
        in_picture, followed = (
            np.hypot(*np.subtract((rect.center_x * 512, rect.center_y * 256), expected))
            for rect in (regions[0][number], regions[1][number])
        )
        assert followed < in_picture
        assert followed < 0.02 * alone.rect.width * 256


def test_somebody_small_in_a_wide_picture_is_found_and_only_once(one, everybody, person):
    black = np.zeros_like(person)
    frame = beside(*[black] * 6, person, *[black] * 5)
    assert one.find([frame]) == [[]]  # in the whole picture the detector does not see them
    ((found,),) = everybody.find([frame])
    assert 6 / 12 < found.body.points[0, 0] < 7 / 12


def test_clips_in_lock_step_and_states_through_bytes_equal_clips_alone(everybody, person):
    pair = beside(person, person)
    clips = [[pair, np.roll(pair, 5, 0), pair], [beside(person, 0 * person), pair, pair]]
    states = [everybody.new_state(), everybody.new_state()]
    together = []
    for frames in zip(*clips, strict=True):
        states = [everybody.load_state(state.to_bytes()) for state in states]
        together.append(everybody.find(frames, states))
    for number, clip in enumerate(clips):
        state = everybody.new_state()
        for frame, found in zip(clip, together, strict=True):
            (people,) = everybody.find([frame], [state])
            assert len(people) == len(found[number])
            for a, b in zip(people, found[number], strict=True):
                assert a.body.landmarks.tobytes() == b.body.landmarks.tobytes()


def test_no_more_people_than_asked_for_and_nobody_stays_who_is_gone(everybody, person):
    pair, black = beside(person, person), np.zeros((64, 64, 3), np.uint8)
    two = HolisticEstimator(people=2, parts="pose", min_detection_confidence=0.3)
    assert two.estimate([beside(person, person, person), pair]).others.counts.tolist() == [1, 1]
    state = two.new_state()
    two.estimate([pair], [state])
    assert len(state.people) == 2
    for _ in range(MAX_MISSING + 1):
        nobody = two.estimate([black], [state])
        assert np.isnan(nobody.points).all()
    assert len(state.people) == 1
    two.close()


def test_the_declaration_says_how_many_and_wrong_numbers_are_refused():
    assert engine_info("holistic").people == "one"
    assert engine_info("holistic", {"people": 3}).people == "several"
    assert engine_info("pose", {"people": "all"}).people == "several"
    for wrong in (0, -1, "some", 1.5):
        with pytest.raises(ConfigError, match="people: expected a whole number of at least 1, or"):
            open_estimator("holistic", people=wrong)
