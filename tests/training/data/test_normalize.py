import numpy as np
import pytest

from posemill.errors import ConfigError
from posemill.skeletons import get_skeleton
from posemill.training.data.normalize import (
    Group,
    Preparation,
    groups_of,
    normalize_parts,
    normalize_whole,
    sample_at,
)

RNG = np.random.default_rng(0)


def person(frames=6):
    points = RNG.random((frames, 143, 3)).astype(np.float32)
    return points, np.ones(points.shape[:2], bool)


def test_parts_do_not_depend_on_place_and_size_of_the_person():
    points, mask = person()
    function = Preparation(skeleton_name="holistic-143")
    one, _ = function(points, mask)
    other, _ = function(points * 3 + 2, mask)
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_missing_points_have_no_say_and_stay_zero():
    points, mask = person()
    mask[2, 68:89] = False  # the left hand of a frame
    mask[:, 3] = False  # a point of the face
    wild = np.where(mask[..., None], points, 1e6).astype(np.float32)
    function = Preparation(skeleton_name="holistic-143")
    one, kept = function(points, mask)
    other, _ = function(wild, mask)
    np.testing.assert_array_equal(one, other)
    assert (one[~mask] == 0).all()
    np.testing.assert_array_equal(kept, mask)


@pytest.mark.parametrize(
    ("options", "frames"),
    [({}, range(9)), ({"num_frames": 5}, range(0, 9, 2)), ({"max_frames": 5}, range(0, 9, 2)),
     ({"max_frames": 9}, range(9)), ({"num_frames": 17}, np.linspace(0, 8, 17))],
)  # fmt: skip
def test_resampling_keeps_the_ends_and_longer_clips_are_cut_to_the_limit(options, frames):
    points, mask = person(9)
    points[..., 0] = np.arange(9)[:, None]
    found, _ = Preparation(normalize="none", num_dims=2, **options)(points, mask)
    np.testing.assert_array_equal(found[:, 0, 0], list(frames))
    assert found.shape[1:] == (143, 2)


def test_between_a_found_and_a_missing_point_the_found_one_counts():
    points = np.array([[[2.0]], [[0.0]]], np.float32)
    mixed, found = sample_at(points, np.array([[True], [False]]), np.array([0.5, 1.0]))
    assert mixed[:, 0, 0].tolist() == [2.0, 0.0]
    assert found[:, 0].tolist() == [True, False]


def test_what_was_done_is_written_down_so_that_a_cache_knows_it():
    written = repr(Preparation(num_dims=2, num_frames=7, max_frames=9))
    for changes in ({"num_dims": 3}, {"num_frames": 8}, {"max_frames": 8}, {"normalize": "none"},
                    {"skeleton_name": "holistic-143"}):  # fmt: skip
        given = {"num_dims": 2, "num_frames": 7, "max_frames": 9, **changes}
        assert repr(Preparation(**given)) != written
    assert repr(Preparation()) == repr(Preparation(normalize="whole")), "what auto comes to"
    whole = Preparation(normalize="whole", skeleton_name="holistic-143")
    points, mask = person()
    np.testing.assert_array_equal(whole(points, mask)[0], normalize_whole(points, mask)[0])


def test_a_whole_clip_is_centred_and_has_size_one_and_parts_have_the_median_of_frames():
    points = np.array([[[0.0, 0.0], [6.0, 8.0], [99.0, 99.0]]], np.float32)
    result, _ = normalize_whole(points, np.array([[True, True, False]]))
    np.testing.assert_allclose(result[0], [[-0.6, -0.8], [0.6, 0.8], [0, 0]], rtol=1e-6)
    assert result.dtype == np.float32
    still, _ = normalize_whole(np.full((2, 1, 2), 5.0, np.float32), np.ones((2, 1), bool))
    assert (still == 0).all(), "a point alone has no size to divide by"
    ends = np.zeros((3, 2, 2), np.float32)
    ends[:, 1, 0] = (1.0, 2.0, 30.0)
    result, _ = normalize_parts(ends, np.ones((3, 2), bool), (Group(0, 2, (0,), (0, 1)),))
    assert result[:, 1, 0].tolist() == [0.5, 1.0, 15.0]


def test_a_group_is_centred_on_its_roots_and_measured_by_its_ruler():
    points = np.array([[[2.0, 2.0, 1.0], [6.0, 2.0, 3.0], [4.0, 6.0, 2.0]]], np.float32)
    every = np.ones((1, 3), bool)

    def made(mask=every, **options):
        result = normalize_parts(points, mask, (Group(0, 3, **options),))[0]
        return result[0].round(4).tolist()

    assert made(roots=(0, 1), ruler=(0, 1)) == [[-0.5, 0, -0.25], [0.5, 0, 0.25], [0, 1, 0]]
    assert made(roots=(2,), ruler=(0, 1)) == [[-0.5, -1, -0.25], [0.5, -1, 0.25], [0, 0, 0]]
    # Without a ruler the unit is the root mean square of x and y: here of 20, 20 and 0 thirds.
    unit = float(np.sqrt(40 / 3))
    assert made(roots=(2,))[0] == pytest.approx([-2 / unit, -4 / unit, -1 / unit], abs=1e-4)
    # A root that is missing: the mean of what is there.
    mask = np.array([[False, True, True]])
    assert made(mask, roots=(0,))[1:] == [
        pytest.approx([1 / np.sqrt(5), -2 / np.sqrt(5), 0.5 / np.sqrt(5)], abs=1e-4),
        pytest.approx([-1 / np.sqrt(5), 2 / np.sqrt(5), -0.5 / np.sqrt(5)], abs=1e-4),
    ]
    # A ruler that is missing, or has no length: nothing is scaled.
    assert made(mask, roots=(2,), ruler=(0, 1))[1:] == [[2, -4, 1], [0, 0, 0]]
    assert made(roots=(2,), ruler=(1, 1))[0] == [-2, -4, -1]


def test_the_groups_of_a_skeleton_have_their_roots():
    where = {name: i for i, name in enumerate(get_skeleton("holistic-143").point_names)}
    shoulders = (where["left_shoulder"], where["right_shoulder"])
    parts = {part.name: part for part in get_skeleton("holistic-143").parts}
    assert groups_of("holistic-143") == tuple(
        Group(part.start, part.stop, *roots)
        for part, roots in (
            (parts["face"], ()),
            (parts["left_hand"], ((where["left_hand_wrist"],),)),
            (parts["right_hand"], ((where["right_hand_wrist"],),)),
            (parts["pose"], (shoulders, shoulders)),
        )
    )
    for name in ("openpose-18", "coco-133"):
        (body,) = (group for group in groups_of(name) if group.ruler)
        names = get_skeleton(name).point_names
        assert [names[i] for i in body.roots] == ["left_shoulder", "right_shoulder"]


def test_parts_of_an_unknown_skeleton_are_refused():
    with pytest.raises(ConfigError, match='normalize="parts" needs a known skeleton'):
        Preparation(normalize="parts")
