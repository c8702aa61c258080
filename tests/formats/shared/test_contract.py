"""The contract of formats by itself: recipes, headers, and the checks writers and readers share."""

import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from posemill.blocks import join_clips
from posemill.errors import ContentError, FormatError
from posemill.files import CORRUPT, reading
from posemill.formats.shared import contract, json_text
from posemill.formats.shared.contract import ClipStream, Format, Recipe, header_fields, make_clip
from posemill.formats.shared.people import are_pixels, from_pixels, to_pixels
from posemill.testing.formats import make_clip as some_clip

PATH = Path("here.x")
FORM, PIXELS = Format(), Format()
FORM.name = PIXELS.name = "made-up"
FORM.layouts, PIXELS.layouts = ("holistic-143",), (contract.ANY,)
PIXELS.has_pixels = True


def check(form, *clips):
    list(ClipStream(form, clips, PATH, Recipe()))


def test_a_recipe_records_what_was_given_and_what_was_done_before_it():
    recorded = Recipe(replace={"a": "b"}, root="/home/someone").to_dict()
    assert recorded["replace"] == {"a": "b"}
    assert "extraction" not in recorded
    assert "root" not in recorded
    recipe = Recipe(normalize="bbox", interpolate=3)
    assert recipe.after(some_clip(1)) == recipe
    done = recipe.after(some_clip(1, normalized="shoulders", interpolated=5))
    assert (done.normalize, done.interpolate) == ("shoulders", 5)


def test_clips_are_checked_when_taken_and_counted_after_that():
    clips = [some_clip(1, frames=2), some_clip(2, frames=3, split="dev", interpolated=5)]
    stream = ClipStream(FORM, clips, PATH, Recipe())
    seen = [(stream.is_first, stream.summary.num_frames) for _ in stream]
    assert seen == [(True, 0), (False, 2)]
    assert (stream.summary.num_frames, stream.summary.splits) == (5, {"train": 1, "dev": 1})
    assert (stream.asked.interpolate, stream.header()["recipe"]["interpolate"]) == (0, 5)
    assert stream.header()["skeleton"] == "holistic-143"
    with pytest.raises(ContentError, match="no clips to write"):
        list(ClipStream(FORM, [], PATH, Recipe()))


@pytest.mark.parametrize("field", ["clip_id", "split", "label", "image_paths"])
def test_names_that_are_no_unicode_are_refused(field):
    form = copy(FORM)
    form.needs_unicode = True
    check(form, some_clip(1, frames=1, label=None))
    bad = "\udc80" + "x" * 300
    clip = some_clip(1, frames=1, **{field: (bad,) if field == "image_paths" else bad})
    assert "expected Unicode" in refusal(form, clip)
    check(FORM, clip)


def refusal(form, *clips):
    """Return why the last clip is refused, also in a block; the ones before are not."""
    if clips[:-1]:
        check(form, *clips[:-1])
    with pytest.raises(ContentError) as caught:
        check(form, *clips)
    with pytest.raises(ContentError) as of_block:
        list(ClipStream(form, (), PATH, Recipe()).blocks([join_clips(clips)]))
    assert str(of_block.value) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("field", "value"), [("points", -np.inf), ("scores", np.nan)])
def test_numbers_that_are_none_are_refused(field, value):
    good, bad = some_clip(1), some_clip(2)
    getattr(bad, field)[1, 2] = value
    message = "clip 'clip_2' holds infinity or a score that is no number"
    assert refusal(FORM, good, bad) == message


def test_pixels_need_a_size():
    good, bad = some_clip(1), some_clip(2, size_wh=(640, 0))
    message = "made-up holds pixels, but the picture size of clip 'clip_2' is not known; give"
    assert message in refusal(PIXELS, good, bad)
    check(PIXELS, some_clip(1, frames=0, size_wh=(0, 0)))
    check(PIXELS, some_clip(1, size_wh=(1, 1)))
    check(FORM, bad)


def test_whatever_broken_bytes_raise_is_a_format_error(tmp_path):
    with pytest.raises(FormatError) as caught, reading(tmp_path / "none", "made-up"):
        pass
    assert str(caught.value) == f"{tmp_path / 'none'}: no such file or folder"
    for kind in CORRUPT:
        with pytest.raises(FormatError) as caught, reading(tmp_path, "made-up"):
            raise kind("x" * 400)
        assert kind is ValueError or kind.__name__ in str(caught.value)
        assert len(str(caught.value)) < 400 + len(str(tmp_path))
    ours = FormatError("ours")
    with pytest.raises(FormatError) as caught, reading(tmp_path, "made-up"):
        raise ours
    assert caught.value is ours
    with pytest.raises(FormatError), reading(tmp_path, "made-up", LookupError):
        raise LookupError
    with pytest.raises(LookupError), reading(tmp_path, "made-up"):
        raise LookupError


def test_a_skeleton_is_checked_or_guessed():
    for header in ({"skeleton": "openpose-18"}, {}):
        assert header_fields(header, 18, PATH) == {"skeleton_name": "openpose-18"}
    for num_points, name, words in (
        (16, None, "no skeleton is named"),
        (17, "openpose-18", "expected 18 points a frame, got 17"),
        (17, "y" * 90, "unknown skeleton"),
    ):
        with pytest.raises((ContentError, ValueError), match=words):
            header_fields({"skeleton": name}, num_points, PATH)


def made(points, scores=None, mask=None, **fields):
    fields = {"clip_id": "c", "skeleton_name": "openpose-18"} | fields
    return make_clip(points, scores, mask, sizes_wh=np.zeros((len(points), 2)), **fields)


def test_mask_and_scores_of_the_file_count():
    mask = np.ones((1, 18), bool)
    mask[0, 3] = False
    clip = made(np.zeros((1, 18, 3)), np.full((1, 18), 0.25), mask)
    np.testing.assert_array_equal(clip.mask, mask)
    np.testing.assert_array_equal(clip.scores, np.where(mask, 0.25, 0))
    with pytest.raises(ValueError, match=r"^clip 'c': expected scores in 0\.\.1, got 0"):
        made(np.zeros((1, 18, 3)), np.full((1, 18), 1.5), mask)


def test_info_comes_back_with_its_types():
    text = json_text.info_text(some_clip(1, extra={"signer": "ä"}))
    assert text.isascii()
    assert json_text.read_info(text) == {"label": "SIGN 1", "fps": 25.0, "extra": {"signer": "ä"}}
    nothing = {"label": None, "fps": None, "extra": {}}
    assert json_text.read_info("") == nothing
    assert json_text.read_info("{}") == nothing
    found = json_text.read_info(json.dumps({"label": 7, "fps": "5"}))
    assert (found["label"], found["fps"]) == ("7", 5.0)
    with pytest.raises(ValueError, match=r"^expected an object as extra, got list$"):
        json_text.read_info('{"extra": []}')


def test_the_median_of_found_x_and_y_says_that_points_are_pixels():
    found = [[2, 6, 1e6], [0, np.nan, 1e6], [np.inf, 0, 1e6], [3, 6, 1e6]]
    assert are_pixels(np.array([found]))
    assert not are_pixels(np.array([[[0.5, 0.5, 9], [0.5, 9, 9]]]))
    assert not are_pixels(np.zeros((0, 5, 2)))
    # Some 256 frames are looked at.
    points = np.full((512, 1, 2), 0.5)
    points[1::2] = 300
    assert not are_pixels(points)
    assert are_pixels(points[1:])


def test_pixels_are_shares_of_the_picture_and_back_rounded_and_zero_where_missing():
    sizes_wh = np.array([(100, 50), (20, 40)], np.int32)
    found = from_pixels(np.full((2, 1, 3), 10), sizes_wh)
    np.testing.assert_allclose(found, [[[0.1, 0.2, 0.1]], [[0.5, 0.25, 0.5]]], rtol=1e-6)
    assert found.dtype == np.float32
    with pytest.raises(ContentError, match="size="):
        from_pixels(np.ones((2, 1, 2)), sizes_wh * [[1], [0]])
    clip = some_clip(1, frames=1, skeleton="openpose-18", size_wh=(1000, 10))
    clip.points[0, :3, :2] = [[0.1234567, 0.5], [np.nan, np.nan], [2, -1]]
    clip.scores[0, :3] = [0.12345678, 0, 0]
    np.testing.assert_allclose(
        to_pixels(clip)[0, :3], [[123.457, 5, 0.123457], [0, 0, 0], [2000, -10, 1e-6]], rtol=1e-12
    )
