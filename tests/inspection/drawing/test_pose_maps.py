"""Skeletons on black: where each colour is, who is on top, and what cannot be drawn so."""

import dataclasses
from collections.abc import Callable

import av
import cv2
import numpy as np
import pytest
from made_up_people import write_run

import posemill
from posemill.errors import ConfigError
from posemill.inspection.drawing.strokes import pose_maps
from posemill.records import OtherPeople, PoseClip
from posemill.skeletons.palette import OPENPOSE_COLOURS

Maker = Callable[..., PoseClip]


def only(clip, points, row=0):
    """Return the clip with these points of one frame and no others."""
    new = np.full_like(clip.points, np.nan)
    for index, place in points.items():
        new[row, index] = (*place, 0)
    return dataclasses.replace(clip, points=new)


def body(make_clip, num_frames=1, **fields):
    return make_clip(num_frames, skeleton_name="openpose-18", **fields)


def test_a_point_is_a_dot_of_radius_4_in_its_colour(make_clip):
    clip = only(body(make_clip, size_wh=(64, 48)), {4: (0.5, 0.5), 9: (0.25, 0.25)})
    ((row, picture),) = pose_maps(clip, [0])
    assert (row, picture.shape, picture.dtype) == (0, (48, 64, 3), np.uint8)
    expected = np.zeros_like(picture)
    cv2.circle(expected, (32, 24), 4, OPENPOSE_COLOURS[4], -1)
    cv2.circle(expected, (16, 12), 4, OPENPOSE_COLOURS[9], -1)
    np.testing.assert_array_equal(picture, expected)


@pytest.mark.parametrize(
    ("limb", "ends"),
    [(0, (1, 2)), (1, (1, 5)), (5, (6, 7)), (6, (1, 8)), (11, (12, 13)), (12, (1, 0)),
     (13, (0, 14)), (14, (14, 16)), (16, (15, 17))],
)  # fmt: skip
def test_a_limb_is_an_ellipse_of_nine_pixels_in_six_tenths_of_its_colour(make_clip, limb, ends):
    clip = only(body(make_clip, size_wh=(100, 100)), {ends[0]: (0.2, 0.5), ends[1]: (0.8, 0.5)})
    ((_, picture),) = pose_maps(clip, [0])
    dimmed = [int(0.6 * channel) for channel in OPENPOSE_COLOURS[limb]]
    column = picture[:, 50]
    assert np.nonzero(column.any(1))[0].tolist() == list(range(46, 55))
    assert (column[46:55] == dimmed).all()
    # Dots lie on it.
    assert tuple(picture[50, 20]) == OPENPOSE_COLOURS[ends[0]]
    assert tuple(picture[50, 80]) == OPENPOSE_COLOURS[ends[1]]


def test_points_outside_of_the_picture_and_their_limbs_are_left_out(make_clip):
    clip = only(body(make_clip, size_wh=(100, 100)), {3: (0.5, 0.5), 4: (0.5, 1.01)})
    ((_, picture),) = pose_maps(clip, [0])
    ((_, alone),) = pose_maps(only(clip, {3: (0.5, 0.5)}), [0])
    np.testing.assert_array_equal(picture, alone)


def test_everyone_is_drawn_and_the_largest_is_on_top(make_clip):
    clip = only(body(make_clip, num_frames=2, size_wh=(64, 64)), {0: (0.5, 0.5)})
    shape = (2, 18, 3)
    points = np.full(shape, np.nan, np.float32)
    points[0, 1] = (0.5, 0.5, 0)  # under the dot of the first
    points[1, 1] = (0.25, 0.25, 0)
    others = OtherPeople(np.array([2, 0]), points, np.ones(shape[:2], np.float32))
    (_, picture), (_, second) = pose_maps(dataclasses.replace(clip, others=others), [0, 1])
    assert tuple(picture[32, 32]) == OPENPOSE_COLOURS[0]
    assert tuple(picture[16, 16]) == OPENPOSE_COLOURS[1]
    assert not second.any(), "nobody was found in it, and its map is black"


def test_other_skeletons_are_drawn_by_their_18_points(make_clip):
    clip = make_clip(1)
    ((_, picture),) = pose_maps(clip, [0])
    ((_, expected),) = pose_maps(clip.as_skeleton("openpose-18"), [0])
    assert picture.any()
    np.testing.assert_array_equal(picture, expected)


def test_what_has_no_place_in_a_picture_is_refused(make_clip):
    clip = dataclasses.replace(make_clip(1), normalized="shoulders")
    with pytest.raises(ConfigError, match=r"^style=.openpose.: clip 'someone' was normalised by"):
        list(pose_maps(clip, [0]))
    with pytest.raises(ConfigError, match=r"how large its pictures are; give it by size"):
        list(pose_maps(make_clip(1, size_wh=(0, 0)), [0]))


@pytest.fixture
def run(make_clip, tmp_path):
    clips = []
    for split, name in (("train", "x"), ("train", "deep/y"), ("all", "z")):
        paths = tuple(f"/data/{split}/{name}/p{row}.jpg" for row in range(12))
        clips.append(body(make_clip, 12, split=split, clip_id=name, image_paths=paths))
    return write_run(tmp_path / "run", *clips, kind="import")


def test_every_picture_has_its_map_in_the_folders_and_names_of_the_pictures(run, tmp_path):
    out = tmp_path / "maps"
    drawn = posemill.visualize(run, out, style="openpose", all=True, progress=False)
    names = [path.relative_to(out).as_posix() for path in drawn]
    assert sorted(names) == sorted(
        f"{folder}/p{row}.png" for folder in ("train/x", "train/deep/y", "z") for row in range(12)
    )
    posemill.export(run, "txt", tmp_path / "texts", progress=False)
    texts = {path.relative_to(tmp_path / "texts").with_suffix(".png").as_posix()
             for path in (tmp_path / "texts").rglob("*.txt")}  # fmt: skip
    assert texts == {*names}, "the same folders and names as the txt files have"
    assert (drawn.num_originals_gone, drawn.notes) == (0, ())
    ((_, expected),) = pose_maps(posemill.open_run(run)["train", "x"], [3])
    found = cv2.imread(str(out / "train/x/p3.png"))[..., ::-1]
    np.testing.assert_array_equal(found, expected)


def test_pictures_that_are_clips_of_their_own_have_their_maps_where_their_txt_files_are(
    make_clip, tmp_path
):
    clips = [
        body(make_clip, 1, split="all", clip_id=name, image_paths=(f"/d/{name}",))
        for name in ("a/x.jpg", "a/x.png", "a/y.jpg")
    ]
    write_run(tmp_path / "run", *clips, kind="import")
    out = tmp_path / "maps"
    drawn = posemill.visualize(tmp_path / "run", out, style="openpose", all=True, progress=False)
    names = {path.relative_to(out).as_posix() for path in drawn}
    assert names == {"a/x.png", "a/x.png.png", "a/y.png"}


def test_without_all_it_is_a_sample_and_with_video_movies(run, tmp_path):
    few = posemill.visualize(run, tmp_path / "few", style="openpose", num_samples=2, progress=False)
    assert len(few) == 4
    (movie,) = posemill.visualize(
        run, tmp_path / "movies", style="openpose", clips="x", video="mp4", progress=False
    )
    assert movie == tmp_path / "movies" / "train" / "x.mp4"
    with av.open(str(movie)) as container:
        assert sum(1 for _ in container.decode(video=0)) == 12
