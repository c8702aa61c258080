import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format
from posemill.jobs.landmarks import save_landmarks
from posemill.testing.formats import assert_same, make_clip


@pytest.mark.parametrize("paths", [(), ("a.png", "b.png", "c.png")])
def test_the_file_of_landmarks_is_one_clip_of_all_points(tmp_path, paths):
    clip = make_clip(1, frames=3, skeleton="holistic-543", clip_id="hello", split="all",
                     image_paths=paths, label=None, fps=None)  # fmt: skip
    pose = clip.skeleton.part("pose")
    clip.scores[:, : pose.start] = clip.mask[:, : pose.start]
    clip.scores[:, pose.stop :] = clip.mask[:, pose.stop :]
    save_landmarks(clip, tmp_path / "hello.npz")
    (back,) = detect_format(tmp_path / "hello.npz").read(tmp_path / "hello.npz")
    assert_same(clip, back)


def arrays(**changes):
    shapes = {"pose": (2, 33, 4), "face": (2, 468, 3), "left_hand": (2, 21, 3),
              "right_hand": (2, 21, 3)}  # fmt: skip
    return {name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()} | changes


def test_pose_without_visibility_and_sizes_counts_as_seen(tmp_path):
    path = tmp_path / "dev_keypoints.npz"
    np.savez(path, **arrays(pose=np.full((2, 33, 3), 0.5)))
    (clip,) = detect_format(path).read(path, size_wh=(64, 48))
    assert (clip.split, clip.sizes_wh.tolist()) == ("dev", [[64, 48]] * 2)
    assert (clip.scores == 1).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"face": np.ones((2, 478, 3))},
         r"expected face of shape \(2, 468, 3\) \(kind f\), got float64 \(2, 478, 3\)"),
        ({"pose": np.ones((2, 9))}, r"pose of shape \(2, 33, 3\) or \(2, 33, 4\) \(kind f\), got"),
        ({"pose": np.ones(())}, "holds no clips"),
        ({"size_wh": np.ones((3, 2), int)}, r"expected size_wh of shape \(2, 2\)"),
        ({"size_wh": np.full((2, 2), np.nan)}, "expected size_wh .*kind iu"),
        ({"face": np.full((2, 468, 3), np.inf)}, "a found point is infinite"),
        ({"image_paths": np.array(["a"])}, "image_paths: expected 2 or none, got 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_file(tmp_path, changes, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises(FormatError, match=rf"bad\.npz.*{message}"):
        list(detect_format(path).read(path))


def test_another_skeleton_has_its_name_and_a_score_for_every_point(tmp_path):
    clip = make_clip(3, skeleton="openpose-18", clip_id="hello")
    save_landmarks(clip, tmp_path / "hello.npz")
    with np.load(tmp_path / "hello.npz") as loaded:
        assert loaded["pose"].shape == (len(clip), 18, 4)
        assert str(loaded["skeleton"]) == "openpose-18"
        unknown = {**loaded, "skeleton": np.array("cat-9")}
    (back,) = detect_format(tmp_path / "hello.npz").read(tmp_path / "hello.npz")
    assert back.skeleton_name == "openpose-18"
    np.testing.assert_array_equal(back.points, clip.points)
    np.testing.assert_array_equal(back.scores, clip.scores)
    np.savez(tmp_path / "cat.npz", **unknown)
    with pytest.raises(FormatError, match=r"cat\.npz: unknown skeleton 'cat-9'"):
        list(detect_format(tmp_path / "cat.npz").read(tmp_path / "cat.npz"))
    np.savez(tmp_path / "bare.npz", skeleton="openpose-18")
    with pytest.raises(FormatError, match=r"bare\.npz: expected arrays pose, found skeleton"):
        list(detect_format(tmp_path / "bare.npz").read(tmp_path / "bare.npz"))


def test_a_file_with_keypoints_is_none_of_landmarks_whatever_else_it_has(tmp_path):
    np.savez(tmp_path / "a.npz", **arrays(), keypoints=np.ones((3, 18, 2)))
    (clip,) = detect_format(tmp_path / "a.npz").read(tmp_path / "a.npz")
    assert clip.skeleton_name == "openpose-18"
