import numpy as np
import pytest
from small_sets import make_set

from posemill.skeletons import get_skeleton
from posemill.training.config.data_settings import USUAL_AUGMENTATION, AugmentationSettings
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.keypoint_clips import Sample
from posemill.training.data.normalize import Augment, mirror, warp_time
from posemill.training.tasks.keypoint_kind import KeypointKind

POINTS = np.random.default_rng(0).normal(size=(20, 143, 3)).astype(np.float32)
MASK = np.random.default_rng(1).random((20, 143)) > 0.2
POINTS[~MASK] = 0


def make(skeleton_name=None, **amounts):
    return Augment(AugmentationSettings(**amounts), skeleton_name)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rotate": 30.0}, (20, 2860, 8.4443, -59.1056)),
        ({"scale": 0.2}, (20, 2860, 17.3398, -54.7726)),
        ({"shift": 0.3}, (20, 2860, 250.72, -65.6139)),
        ({"noise": 0.1}, (20, 2860, 8.8377, -70.6409)),
        ({"time_warp": 0.5}, (11, 1573, -19.6756, -17.9155)),
        ({"crop": 0.5}, (14, 2002, 9.5627, 1.6172)),
        ({"joint_dropout": 0.3}, (20, 2100, 56.7011, -68.7737)),
        ({"part_dropout": 0.5}, (20, 2356, -58.8146, -84.172)),
        ({"mirror": 0.7}, (20, 2860, 112.0658, -78.9532)),
    ],
)
def test_a_seed_gives_the_same_clip_in_every_version(options, expected):
    """So that a training that goes on with a newer version sees what it would have seen."""
    whole = np.random.default_rng(0).normal(size=(20, 143, 3)).astype(np.float32)
    augment = make(**options, skeleton_name="holistic-143")
    points, mask = augment(whole, np.ones_like(MASK), rng())
    flat = points.ravel().astype(np.float64)
    found = (len(points), mask.sum(), flat.sum(), flat @ np.cos(np.arange(flat.size)))
    assert found == pytest.approx(expected, abs=2e-3)


def test_a_mirrored_clip_has_left_and_right_swapped():
    names = get_skeleton("holistic-143").point_names
    left, right = names.index("left_wrist"), names.index("right_wrist")
    points, mask = mirror(POINTS, MASK, "holistic-143")
    np.testing.assert_allclose(points[:, left] * (-1, 1, 1), POINTS[:, right])
    np.testing.assert_array_equal(mask[:, left], MASK[:, right])
    back, _ = mirror(points, mask, "holistic-143")
    np.testing.assert_array_equal(back, POINTS)
    plain, _ = mirror(POINTS, MASK, None)
    np.testing.assert_array_equal(plain[..., 0], -POINTS[..., 0])


def test_part_dropout_takes_whole_parts_for_a_while_but_never_the_body():
    augment = make(part_dropout=0.5, skeleton_name="holistic-143")
    dropped = {part.name: 0 for part in get_skeleton("holistic-143").parts}
    for seed in range(40):
        _, mask = augment(POINTS, np.ones_like(MASK), rng(seed))
        for part in get_skeleton("holistic-143").parts:
            missing = ~mask[:, part.start : part.stop]
            assert (missing.all(1) == missing.any(1)).all(), "all points of a part or none"
            assert missing[:, 0].sum() in (0, *range(10, 21))
            dropped[part.name] += bool(missing.any())
    assert dropped["pose"] == 0
    whole = make(part_dropout=0.9, skeleton_name="openpose-18")
    for seed in range(5):
        assert whole(POINTS[:, :18], MASK[:, :18], rng(seed))[1].tolist() == MASK[:, :18].tolist()
    assert all(8 < dropped[name] < 32 for name in ("face", "left_hand", "right_hand"))


def test_a_cropped_clip_is_a_piece_of_the_whole_one():
    line = np.arange(20, dtype=np.float32)[:, None, None] + 1
    starts, ends = [], []
    for seed in range(40):
        points, mask = warp_time(line, np.ones((20, 1), bool), rng(seed), speed=0.0, crop=0.5)
        steps = np.diff(points[:, 0, 0])
        assert mask.all()
        assert steps == pytest.approx(1, abs=0.1), "no frame twice, none left out, none made up"
        starts.append(points[0, 0, 0])
        ends.append(points[-1, 0, 0])
    assert min(starts) >= 1
    assert max(ends) <= 20
    assert max(starts) > 3, "cut at the start"
    assert min(ends) < 17, "and at the end"
    assert np.subtract(ends, starts).min() >= 9.5 - 1e-4, "at most half is cut"


def test_flat_points_and_single_numbers_can_be_changed():
    points, _ = make(rotate=10, scale=0.1, shift=0.1)(POINTS[..., :1], MASK, rng())
    assert points.shape == (20, 143, 1)
    flat = POINTS[..., :2]
    turned, _ = make(rotate=90)(flat, np.ones_like(MASK), rng())
    assert not np.allclose(turned, flat)
    np.testing.assert_allclose(
        np.linalg.norm(turned, axis=-1), np.linalg.norm(flat, axis=-1), rtol=1e-4
    )


def test_the_given_clip_is_not_modified_and_missing_points_stay_zero():
    changed = make(rotate=10, scale=0.2, shift=0.1, noise=0.05, time_warp=0.2, crop=0.1,
                   joint_dropout=0.1, part_dropout=0.1, mirror=0.5,
                   skeleton_name="holistic-143")  # fmt: skip
    before = POINTS.copy()
    for seed in range(5):
        points, mask = changed(POINTS, MASK, rng(seed))
        assert (points[~mask] == 0).all()
        assert points.dtype == np.float32
    np.testing.assert_array_equal(POINTS, before)


def test_the_settings_of_a_training_say_how_clips_are_augmented():
    off = dict.fromkeys((f"augment_{name}" for name in USUAL_AUGMENTATION), 0.0)
    clips = make_set([Sample(POINTS, MASK, 0)], "a", skeleton_name="holistic-143")

    def augment_of(is_training=True, **changes):
        config = TrainConfig(**off | changes)
        return KeypointKind().open(config, clips, is_training=is_training).augment

    assert augment_of() is None
    assert augment_of(is_training=False, augment_mirror=0.5) is None
    found = augment_of(augment_mirror=0.5)
    assert (found.skeleton_name, found.amounts.mirror) == ("holistic-143", 0.5)
    assert not any(getattr(found.amounts, name) for name in USUAL_AUGMENTATION)
