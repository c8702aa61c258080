import numpy as np
import pytest

from posemill.errors import ConfigError, SourceError
from posemill.records import SPLIT_NAMES, PoseClip, match_splits, usual_split
from posemill.skeletons import get_skeleton
from posemill.sources import find_clips


def make_clip(num_frames=4, skeleton="holistic-543", **changes):
    rng = np.random.default_rng(num_frames)
    num_points = get_skeleton(skeleton).num_points
    fields = {
        "points": rng.random((num_frames, num_points, 3), np.float32),
        "scores": rng.random((num_frames, num_points), np.float32),
        "sizes_wh": np.full((num_frames, 2), (200, 100), np.int32),
        "skeleton_name": skeleton,
        "clip_id": "folder/one",
        **changes,
    }
    return PoseClip(**fields)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("points", np.zeros((4, 142, 3)), r"points: expected shape \(4, 543, 3\).* got \(4, 142"),
        ("points", np.zeros((4, 543, 2)), r"points: expected shape \(4, 543, 3\)"),
        ("scores", np.zeros((3, 543)), r"scores: expected shape \(4, 543\)"),
        ("sizes_wh", np.zeros((4, 3)), r"sizes_wh: expected shape \(4, 2\)"),
        ("frame_indices", np.arange(5), r"frame_indices: expected shape \(4,\)"),
        ("image_paths", ("a.png",), "image_paths: expected 4 or none, got 1"),
        ("skeleton_name", "holistic-9", "unknown skeleton 'holistic-9'; known: holistic-543"),
    ],
)
def test_a_wrong_shape_is_named_with_what_was_expected(field, value, message):
    with pytest.raises(ValueError, match=message):
        make_clip(**{field: value})


def test_repr_prints_shapes_and_what_was_found_also_of_no_frames():
    points = make_clip(4).points.copy()
    points[:3, 522:] = np.nan  # the right hand is in the last frame only
    shown = repr(make_clip(4, points=points))
    assert "'folder/one'" in shown
    assert "points=(4, 543, 3)" in shown
    assert "left_hand 100%, right_hand 25%" in shown
    empty = make_clip(0)
    assert len(empty) == 0
    assert "no frames" in repr(empty)
    assert empty.present.shape == (0, 4)
    assert empty.as_skeleton("openpose-18").points.shape == (0, 18, 3)


def test_a_part_is_a_view_and_present_where_any_of_its_points_was_found():
    points = np.full((2, 543, 3), np.nan, np.float32)
    points[0, 40] = 0.5  # one face point
    clip = make_clip(2, points=points)
    assert clip.mask.sum() == 1
    assert clip.present.tolist() == [[False, True, False, False], [False] * 4]
    clip = make_clip(2)
    assert clip.part("left_hand").shape == (2, 21, 3)
    assert np.shares_memory(clip.part("left_hand"), clip.points)
    np.testing.assert_allclose(clip.pixels()[..., 0], clip.points[..., 0] * 200, rtol=1e-6)
    np.testing.assert_allclose(clip.pixels()[..., 1], clip.points[..., 1] * 100, rtol=1e-6)
    message = r"holistic-543 has no part 'lefthand'; it has pose, face.*did you mean 'left_hand'\?"
    with pytest.raises(ConfigError, match=message):
        clip.part("lefthand")


def test_another_skeleton_takes_the_points_of_the_same_name():
    clip = make_clip(3, label="HELLO")
    small = clip.as_skeleton("holistic-143")
    assert small.points.shape == (3, 143, 3)
    assert small.label == "HELLO"
    np.testing.assert_array_equal(small.part("left_hand"), clip.part("left_hand"))
    np.testing.assert_array_equal(small.part("pose"), clip.part("pose"))
    assert clip.as_skeleton("holistic-543") is clip
    # The neck is the middle of the shoulders, with the lower score.
    pose = get_skeleton("holistic-543").point_names
    left, right = pose.index("left_shoulder"), pose.index("right_shoulder")
    body = clip.as_skeleton("openpose-18")
    np.testing.assert_allclose(
        body.points[:, 1], (clip.points[:, left] + clip.points[:, right]) / 2, rtol=1e-6
    )
    np.testing.assert_array_equal(
        body.scores[:, 1], np.minimum(clip.scores[:, left], clip.scores[:, right])
    )


def test_a_missing_point_stays_missing_with_score_zero_in_another_skeleton():
    points = make_clip(2).points.copy()
    shoulder = get_skeleton("holistic-543").point_names.index("left_shoulder")
    points[0, shoulder] = np.nan
    body = make_clip(2, points=points).as_skeleton("openpose-18")
    assert np.isnan(body.points[0, 1]).all()
    assert body.scores[0, 1] == 0
    assert not np.isnan(body.points[1, 1]).any()
    toes = make_clip(2).as_skeleton("coco-133")
    small_toe = get_skeleton("coco-133").point_names.index("left_small_toe")
    assert np.isnan(toes.points[:, small_toe]).all()
    assert (toes.scores[:, small_toe] == 0).all()


def test_a_name_means_the_split_called_so_and_else_its_aliases_in_any_case():
    assert [usual_split(name) for name in (*SPLIT_NAMES, "Val", " TEST ", "Extra")] == [
        "train", "dev", "dev", "dev", "dev", "test", "dev", "test", "Extra"
    ]  # fmt: skip
    assert match_splits(["dev"], ["train", "val"]) == (["val"], [])
    assert match_splits(["valid"], ["dev", "valid"]) == (["valid"], [])
    assert match_splits(["dev", "validation"], ["Val"]) == (["Val"], [])
    assert match_splits(["dve", "train"], ["train", "dev"]) == (["train"], ["dve"])


def test_a_folder_called_val_is_found_by_any_of_its_names(tmp_path):
    for split in ("train", "val"):
        (tmp_path / split / "clip").mkdir(parents=True)
        (tmp_path / split / "clip" / "1.png").write_bytes(b"")
    for name in ("dev", "val", "validation"):
        assert [clip.split for clip in find_clips(tmp_path, splits=[name])] == ["val"]
    with pytest.raises(SourceError, match=r"has no split 'vla'; it has: train, val"):
        find_clips(tmp_path, splits=["vla"])
