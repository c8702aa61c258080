import numpy as np

from posemill.estimators.people import TrackedState, drop_doubles, gather_people, with_ids


def test_a_box_that_overlaps_a_better_one_too_much_is_dropped_also_counted_in_pixels():
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10], [0, 5, 10, 15]], np.float32)
    scores = np.array([0.8, 0.9, 0.5, 0.7], np.float32)
    assert drop_doubles(boxes, scores, most_overlap=0.45).tolist() == [1, 3, 2]
    assert drop_doubles(boxes, scores, most_overlap=0.2).tolist() == [1, 2]
    assert drop_doubles(boxes, scores, most_overlap=1.0).tolist() == [1, 0, 3, 2]
    assert drop_doubles(boxes[:0], scores[:0], most_overlap=0.5).tolist() == []
    # Of 3 x 1 and 3 x 1, two columns shared: a half; with edges 4 x 2 each, three columns: 0.6.
    boxes = np.array([[0, 0, 3, 1], [1, 0, 4, 1]], np.float32)
    scores = np.array([0.9, 0.8], np.float32)
    assert drop_doubles(boxes, scores, most_overlap=0.55).tolist() == [0, 1]
    assert drop_doubles(boxes, scores, most_overlap=0.55, rim=1).tolist() == [0]
    # Equal scores: the last is the best.
    assert drop_doubles(boxes, scores[[0, 0]], most_overlap=0.1).tolist() == [1]


def test_the_largest_box_in_pixels_stands_for_the_frame():
    # In a picture of 200 x 10: wide, tall, and a single point.
    wide, tall, dot = [[0, 0], [0.5, 0.4]], [[0, 0], [0.1, 1.0]], [[0.2, 0.2], [np.nan, np.nan]]
    points = np.array([dot, tall, wide], np.float32)
    scores = np.array([[0.5, 0], [0.6, 0.7], [0.8, 0.9]], np.float32)
    frames = [np.zeros((10, 200, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]
    found = gather_people(frames, [(points, scores), (points[:0], scores[:0])], 2)
    np.testing.assert_array_equal(found.points[0], np.insert(points[2], 2, 0, axis=1))
    assert found.scores[0].tolist() == scores[2].tolist()
    assert found.sizes_wh.tolist() == [[200, 10], [5, 4]]
    assert np.isnan(found.points[1]).all()
    assert (found.scores[1] == 0).all()
    assert found.others.counts.tolist() == [2, 0]
    np.testing.assert_array_equal(found.others.points[..., :2], points[[1, 0]])
    np.testing.assert_array_equal(found.others.points[1, :, 2], [0, np.nan])
    assert found.others.scores.tolist() == scores[[1, 0]].tolist()


class Remembering:
    """The state of an engine, for a test."""

    def copy(self):
        return self

    def to_bytes(self):
        return b"of the engine"


def test_ids_go_on_after_the_bytes_of_a_state():
    shape = np.random.default_rng(0).random((17, 2)).astype(np.float32) / 5
    frames = [np.zeros((100, 200, 3), np.uint8)] * 2

    def found(step):
        """Two people in one clip, nobody at first and then one in another."""
        left, right = shape + 0.02 * step, shape * 0.9 + 0.7 - 0.02 * step
        people = [np.stack([left, right]), np.stack([right])[: step > 0]]
        return gather_people(frames, [(each, np.ones(each.shape[:2], np.float32))
                                      for each in people], 17)  # fmt: skip

    states = [TrackedState(Remembering()), TrackedState(Remembering())]
    ids = []
    for step in range(4):
        keypoints = with_ids(found(step), [state.tracker for state in states], "coco-17")
        assert keypoints.others.ids is not None
        ids.append([numbers.tolist() for numbers in keypoints.others.ids])
        for state in states:
            engine, state.tracker = TrackedState.split_bytes(state.copy().to_bytes())
            assert engine == b"of the engine"
    assert ids == [[[1, 0], [2]], [[1, 1], [2]], [[1, 1], [2]], [[1, 1], [2]]]
