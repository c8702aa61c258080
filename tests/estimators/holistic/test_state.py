"""What a clip remembers, and its way through bytes."""

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.estimators.holistic.state import HolisticState
from posemill.estimators.landmarks.body_state import PeopleState, pack_arrays
from posemill.estimators.landmarks.rects import Rect


def filled():
    """A state in which every field has a value of its own."""
    state = HolisticState(follows_pose=False, smooths=False, num_frames=7)
    state.expect(Rect(*np.linspace(0.1, 0.5, 5, dtype=np.float32)))
    state.num_missing = 3
    state.visibility = np.full(33, 0.5, np.float32)
    state.previous = {name: np.full((21, 3), number, np.float32)
                      for number, name in enumerate(state.previous)}  # fmt: skip
    for number, one in enumerate((state.body_filter, state.world_filter)):
        one.frame = 5 + number
        one.raw, one.smooth, one.slope = (np.full(3, number + step) for step in (10, 20, 30))
    return state


def assert_same(one, other):
    for name in ("follows_pose", "smooths", "num_frames", "num_missing"):
        assert getattr(one, name) == getattr(other, name)
        assert type(getattr(one, name)) is type(getattr(other, name))
    assert (one.next_rect, one.last_rect) == (other.next_rect, other.last_rect)
    np.testing.assert_equal(one.visibility, other.visibility)
    np.testing.assert_equal(one.previous, other.previous)
    for name in ("body_filter", "world_filter"):
        np.testing.assert_equal(vars(getattr(one, name)), vars(getattr(other, name)))


def through_bytes(*people):
    clip = PeopleState(list(people), num_frames=9)
    back = PeopleState.from_bytes(clip.to_bytes(), HolisticState)
    assert back.num_frames == 9
    return back.people


def test_people_come_back_from_their_bytes_and_bytes_of_something_else_are_refused():
    flags = [
        HolisticState(**{name: value})
        for name in ("follows_pose", "smooths")
        for value in (True, False)
    ]
    people = [HolisticState(), filled(), *flags]
    for back, person in zip(through_bytes(*people), people, strict=True):
        assert_same(back, person)
    whole = PeopleState([HolisticState()]).to_bytes()
    for data in (b"", b"something", whole[:-30], pack_arrays({"clip": [1, 1]})):
        with pytest.raises(FormatError, match="not a state of this engine"):
            PeopleState.from_bytes(data, HolisticState)


def test_people_lost_for_too_long_are_forgotten_but_the_last():
    people = [HolisticState(num_missing=missing) for missing in (3, 2, 4)]
    clip = PeopleState(list(people))
    clip.forget(3)
    assert clip.people == people[:2]
    clip.forget(1)
    assert clip.people == people[:1]


def test_after_a_frame_without_a_person_only_the_clock_and_visibility_stay():
    state = filled()
    state.lose_person()
    assert state.next_rect is None
    assert state.previous == dict.fromkeys(("left_hand", "right_hand", "face"))
    assert state.body_filter.raw is None
    # as in the original, whose filters of these are not reset
    assert state.world_filter.raw is not None
    assert state.visibility is not None
    assert (state.num_frames, state.num_missing) == (7, 4)
