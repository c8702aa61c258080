import numpy as np
import pytest

from posemill.blocks import join_clips
from posemill.errors import ConfigError
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.shaping import dropped_points, layout_for, shape_block, shape_clip
from posemill.records import PoseClip


def clip_of(x, *, size_wh=(200, 100)):
    """A clip of openpose-18 whose points all have this x over time, the shoulders apart."""
    points = np.zeros((len(x), 18, 3), np.float32)
    points[..., 0] = np.array(x)[:, None]
    points[:, 2, 0] -= 0.1
    points[:, 5, 0] += 0.1
    points[..., 1] = 0.5
    points[np.isnan(points[..., 0])] = np.nan
    scores = np.where(np.isnan(points[..., 0]), 0, 0.8).astype(np.float32)
    return PoseClip(points, scores, np.full((len(x), 2), size_wh, np.int32), "openpose-18")


def test_a_closed_gap_has_points_and_scores_between_its_ends():
    clip = clip_of([0.2, np.nan, 0.4])
    clip.scores[2] = 0.4
    shaped = shape_clip(clip, Recipe(interpolate=1), "openpose-18")
    np.testing.assert_allclose(shaped.points[1, 0], (0.3, 0.5, 0), atol=1e-6)
    np.testing.assert_allclose(shaped.scores[1, 0], 0.6, atol=1e-6)
    assert not shape_clip(clip, Recipe(), "openpose-18").mask[1].any()


def test_shoulders_are_measured_in_pixels_not_in_shares_of_the_picture():
    # Shoulders 0.2 of the width apart; 0.2 of the height is half of that in a 200x100 picture.
    clip = clip_of([0.5])
    clip.points[0, 0, 1] = 0.7
    shaped = shape_clip(clip, Recipe(normalize="shoulders"), "openpose-18")
    np.testing.assert_allclose(shaped.points[0, 0], (0, 0.5, 0), atol=1e-6)
    np.testing.assert_allclose(shaped.points[0, 5, 0] - shaped.points[0, 2, 0], 1, atol=1e-6)
    clip.points[:, 2] = np.nan  # without shoulders nothing is found
    shaped = shape_clip(clip, Recipe(normalize="shoulders"), "openpose-18")
    assert not shaped.mask.any()
    assert not shaped.scores.any()


def test_a_clip_in_a_box_says_what_was_done_to_it_and_is_not_normalised_twice():
    shaped = shape_clip(clip_of([0.2, 0.8]), Recipe(normalize="bbox", interpolate=2), "openpose-18")
    np.testing.assert_allclose(np.abs(shaped.points[..., 0]).max(), 1, atol=1e-6)
    assert (shaped.normalized, shaped.interpolated) == ("bbox", 2)
    again = shape_clip(shaped, Recipe(interpolate=1), "openpose-18")
    assert (again.normalized, again.interpolated) == ("bbox", 2)
    for how in ("shoulders", "bbox"):
        said = f"with normalize=.bbox. already; leave out normalize=.{how}"
        with pytest.raises(ConfigError, match=said):
            shape_clip(shaped, Recipe(normalize=how), "openpose-18")


def test_a_layout_that_cannot_be_made_is_refused():
    clip, said = clip_of([0.5]), r"openpose-18 cannot become holistic-543.*choose another skeleton"
    with pytest.raises(ConfigError, match=said):
        shape_clip(clip, Recipe(), "holistic-543")
    with pytest.raises(ConfigError, match=said):
        shape_block(join_clips([clip]), Recipe(), "holistic-543")


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("holistic-543", "holistic-543", ""),
        ("holistic-543", "holistic-143",
         "400 of 468 points of face (holistic-543 as holistic-143)"),
        ("holistic-143", "openpose-18", "68 of 68 points of face; 21 of 21 points of left hand; "
         "21 of 21 points of right hand; 16 of 33 points of pose (holistic-143 as openpose-18)"),
    ],
)  # fmt: skip
def test_points_without_a_use_are_counted_by_part(source, target, words):
    assert dropped_points(source, target) == words


@pytest.mark.parametrize("how", ["shoulders", "bbox"])
def test_without_a_picture_size_there_are_no_lengths_to_normalise_by(how):
    clip = clip_of([0.2, 0.8], size_wh=(0, 0))
    with pytest.raises(ConfigError, match=rf"normalize=.{how}. needs the size .* size=.WIDTHx"):
        shape_clip(clip, Recipe(normalize=how), "openpose-18")
    given = shape_clip(clip.with_size((200, 100)), Recipe(normalize=how), "openpose-18")
    known = shape_clip(clip_of([0.2, 0.8]), Recipe(normalize=how), "openpose-18")
    np.testing.assert_array_equal(given.points, known.points)


@pytest.mark.parametrize(
    ("format_name", "recipe", "layout"),
    [
        ("npz", Recipe(), "openpose-18"),
        ("coco", Recipe(), "coco-17"),
        ("npz", Recipe(layout="coco-133"), "coco-133"),
    ],
)
def test_a_clip_keeps_a_layout_the_format_can_hold(format_name, recipe, layout):
    assert layout_for("openpose-18", recipe, get_format(format_name)) == layout


@pytest.mark.parametrize(
    ("format_name", "layout"),
    [("npz", "holistic-143"), ("hdf5", "holistic-553"), ("pose", "holistic-543")],
)
def test_a_refined_face_stays_whole_where_all_points_are_usual(format_name, layout):
    assert layout_for("holistic-553", Recipe(), get_format(format_name)) == layout
