import numpy as np
import pytest

from posemill.records import OtherPeople, PoseClip
from posemill.tracker import MAX_MISSING, Tracker, box_overlap, pose_similarity

SHAPE = np.random.default_rng(0).random((17, 2)) * [40, 100]


def at(x, y=0.0):
    return (SHAPE + np.array([x, y])).astype(np.float32)


def ids_of(frames, tracker=None):
    tracker = tracker or Tracker()
    return [tracker.assign(np.array(people).reshape(-1, 17, 2)) for people in frames]


def test_people_keep_their_ids_in_any_order_and_when_they_walk_through_each_other():
    frames = [[at(3 * t), at(200 - 2 * t)][:: 1 if t % 2 else -1] for t in range(10)]
    assert ids_of(frames) == [[1, 2] if t % 2 == 0 else [2, 1] for t in range(10)]
    # Where they are in one place only one is seen.
    frames = [[at(8 * t), at(240 - 8 * t)] for t in range(31)]
    for t in (14, 15, 16):
        frames[t] = frames[t][:1]
    found = ids_of(frames)
    assert found[0] == found[-1] == [1, 2]


def test_who_is_away_for_longer_than_the_limit_is_somebody_new():
    for missing, expected in ((MAX_MISSING, 1), (MAX_MISSING + 1, 2)):
        tracker = Tracker()
        *_, last = ids_of([[at(0)], *[[]] * missing, [at(0)]], tracker)
        assert last == [expected]
        assert len(tracker.tracks) == 1


def test_missing_points_are_not_compared_and_overlap_is_the_share_of_the_union():
    half = at(0)
    half[8:] = np.nan
    assert ids_of([[at(0)], [half], [at(0)]]) == [[1], [1], [1]]
    other = at(0)
    other[:8] = np.nan
    assert pose_similarity(half[None], other[None]).tolist() == [[0]]
    one = np.array([[0, 0, 2, 2]], np.float32)
    other = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [2, 2, 3, 3], [0, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(box_overlap(one, other), [[1, 1 / 7, 0, 0]])


def test_a_tracker_goes_on_from_its_bytes_and_its_copy():
    frames = [[at(4 * t), at(150 - 3 * t)] for t in range(12)]
    frames[3][1][5:9] = np.nan
    whole = ids_of(frames)
    tracker = Tracker()
    begun = ids_of(frames[:6], tracker)
    copy, data = tracker.copy(), tracker.to_bytes()
    assert begun + ids_of(frames[6:], tracker) == whole
    assert copy.to_bytes() == data
    assert begun + ids_of(frames[6:], Tracker.from_bytes(data)) == whole


@pytest.mark.parametrize("is_video", [True, False])
def test_clips_of_videos_have_ids_and_pictures_that_stand_alone_have_none(is_video):
    step = 2 if is_video else 300
    people = np.stack([[at(step * t), at(step * t + 100, 20)] for t in range(5)]) / 2000
    points = np.concatenate([people, np.zeros((5, 2, 17, 1))], axis=3).astype(np.float32)
    others = OtherPeople(np.ones(5, np.int64), points[:, 1], np.ones((5, 17), np.float32))
    sizes = np.full((5, 2), 2000, np.int32)
    clip = PoseClip(points[:, 0], np.ones((5, 17), np.float32), sizes, "coco-17", others=others)
    assert clip.person_ids is not None
    expected = [1, 2] if is_video else [0, 0]
    assert [set(ids.tolist()) for ids in clip.person_ids] == [{number} for number in expected]
