"""The contract of formats by itself: recipes, headers, and the checks writers and readers share."""

from __future__ import annotations

import json
import logging
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from format_clips import make_clip as some_clip

from posemill import __version__
from posemill.blocks import join_clips
from posemill.errors import ConfigError, FormatError
from posemill.formats.shared import contract
from posemill.formats.shared.contract import Recipe, SkeletonCheck, Summary, make_clip, skeleton_for

PATH = Path("here.x")
FORM: Any = SimpleNamespace(name="made-up", layouts=("holistic-143",), has_pixels=False)
PIXELS: Any = SimpleNamespace(name="made-up", layouts=(contract.ANY,), has_pixels=True)


def test_a_recipe_knows_its_words() -> None:
    assert Recipe().to_dict() == {
        "layout": None, "normalize": "none", "interpolate": 0, "smooth": "none", "fill": None
    }  # fmt: skip
    assert Recipe("143", fill="nan").layout == "holistic-143"
    for fields, message in (
        ({"layout": "14"}, "unknown skeleton '14'"),
        ({"normalize": "x"}, "unknown normalize 'x'; known: none, shoulders, bbox"),
        ({"fill": "x"}, "unknown fill 'x'; known: nan, zero, interpolate"),
        ({"interpolate": -1}, "interpolate: expected 0 or more frames, got -1"),
    ):
        with pytest.raises(ConfigError) as caught:
            Recipe(**fields)  # type: ignore[arg-type]
        assert str(caught.value).startswith(message)


def test_a_recipe_records_what_was_given_alone() -> None:
    recorded = Recipe(replace={"a": "b"}, extraction={"engine": "fake"}).to_dict()
    assert recorded["replace"] == {"a": "b"}
    assert recorded["extraction"] == {"engine": "fake"}
    assert "extraction" not in Recipe(replace={"a": "b"}).to_dict()


def test_a_recipe_holds_what_was_done_before_it() -> None:
    recipe = Recipe(normalize="bbox", interpolate=3)
    assert recipe.after(some_clip(1)) == recipe
    done = recipe.after(some_clip(1, normalized="shoulders", interpolated=5))
    assert (done.normalize, done.interpolate) == ("shoulders", 5)


def test_a_summary_counts_clips_frames_and_splits() -> None:
    summary = Summary(PATH, "made-up")
    for frames, split in ((2, "train"), (3, "train"), (4, "dev")):
        summary.count(some_clip(1, frames=frames, split=split))
    assert (summary.num_clips, summary.num_frames) == (3, 9)
    assert summary.splits == {"train": 2, "dev": 1}


def test_a_format_holds_its_layouts_or_any() -> None:
    assert contract.holds(FORM, "holistic-143")
    assert not contract.holds(FORM, "coco-133")
    assert contract.holds(PIXELS, "coco-133")


def test_headers_come_back() -> None:
    text = contract.header_text("made-up", "coco-133", Recipe())
    assert contract.read_header(text) == {
        "posemill": __version__, "format": "made-up", "skeleton": "coco-133",
        "recipe": Recipe().to_dict(),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^expected an object as header, got list$"):
        contract.read_header("[]")


@pytest.mark.parametrize("field", ["clip_id", "split", "label", "image_paths"])
def test_names_that_are_no_unicode_are_refused(field: str) -> None:
    contract.expect_unicode(some_clip(1, frames=1, label=None), PATH)
    bad = "\udc80" + "x" * 300
    clip = some_clip(1, frames=1, **{field: (bad,) if field == "image_paths" else bad})
    with pytest.raises(FormatError) as caught:
        contract.expect_unicode(clip, PATH)
    shown_id, shown = repr(clip.clip_id[:80]), repr("\udc80" + "x" * 199)
    assert str(caught.value) == (
        f"here.x: clip {shown_id}: expected Unicode, got {shown}; make a run of it first "
        "(posemill import), where such bytes are written as \\xNN"
    )


def refusal(form: Any, *clips: Any) -> str:
    """Return why the last clip is refused; the ones before are not."""
    check = SkeletonCheck(form, PATH)
    for clip in clips[:-1]:
        check(clip)
    with pytest.raises(FormatError) as caught:
        check(clips[-1])
    return str(caught.value)


def test_one_file_holds_one_skeleton_that_it_can_hold() -> None:
    other = some_clip(2, skeleton="coco-133")
    assert refusal(PIXELS, some_clip(1), other) == (
        "here.x: clip 'clip_2' is coco-133, the clips before it are holistic-143; one file holds "
        "one skeleton: choose a layout for all"
    )
    form = SimpleNamespace(**{**vars(FORM), "layouts": ("holistic-143", "openpose-18")})
    assert refusal(form, other) == (
        "here.x: made-up holds holistic-143 or openpose-18, clip 'clip_2' is coco-133"
    )


def test_one_file_holds_one_normalisation_and_pixels_none() -> None:
    clip = some_clip(2, normalized="bbox")
    assert refusal(FORM, some_clip(1), clip) == (
        "here.x: clip 'clip_2' is normalised by 'bbox', the clips before it by 'none'; one file "
        "holds one normalisation"
    )
    check = SkeletonCheck(FORM, PATH)
    check(clip)
    check(clip)
    assert check.normalized == "bbox"
    assert refusal(PIXELS, clip) == (
        "here.x: made-up holds pixels of the picture, but clip 'clip_2' is normalised by 'bbox': "
        "take the run it was made of, or choose npz, pkl, hdf5, webdataset, parquet or huggingface"
    )


@pytest.mark.parametrize(("field", "value"), [("points", -np.inf), ("scores", np.nan)])
def test_numbers_that_are_none_are_refused_in_blocks_too(field: str, value: float) -> None:
    good, bad = some_clip(1), some_clip(2)
    getattr(bad, field)[1, 2] = value
    message = "here.x: clip 'clip_2' holds infinity or a score that is no number"
    assert refusal(FORM, good, bad) == message
    with pytest.raises(FormatError) as caught:
        SkeletonCheck(FORM, PATH).check_block(join_clips([good, bad]))
    assert str(caught.value) == message


def test_pixels_need_a_size_in_blocks_too() -> None:
    good, bad = some_clip(1), some_clip(2, size_wh=(640, 0))
    message = (
        "here.x: made-up holds pixels, but the picture size of clip 'clip_2' is not known; give "
        'it by size="WIDTHxHEIGHT"'
    )
    assert refusal(PIXELS, good, bad) == message
    with pytest.raises(FormatError) as caught:
        SkeletonCheck(PIXELS, PATH).check_block(join_clips([good, bad]))
    assert str(caught.value) == message
    SkeletonCheck(PIXELS, PATH)(some_clip(1, frames=0, size_wh=(0, 0)))
    SkeletonCheck(PIXELS, PATH)(some_clip(1, size_wh=(1, 1)))
    SkeletonCheck(FORM, PATH)(bad)


def test_of_a_sound_block_one_clip_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(SkeletonCheck, "__call__", lambda _, clip: seen.append(clip.clip_id))
    block = join_clips([some_clip(1), some_clip(2)])
    SkeletonCheck(FORM, PATH).check_block(block)
    assert seen == ["clip_1"]
    SkeletonCheck(PIXELS, PATH).check_block(block)
    assert seen == ["clip_1", "clip_1", "clip_2"]


def test_files_without_clips_are_refused() -> None:
    SkeletonCheck(FORM, PATH).finish(Summary(PATH, "made-up", num_clips=1))
    contract.expect_clips(PATH, 1)
    with pytest.raises(FormatError, match=r"^here\.x: no clips to write; expected at least one$"):
        SkeletonCheck(FORM, PATH).finish(Summary(PATH, "made-up"))
    with pytest.raises(FormatError, match=r"^here\.x: holds no clips; expected at least one$"):
        contract.expect_clips(PATH, 0)


def test_whatever_broken_bytes_raise_is_a_format_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught, contract.reading(tmp_path / "none", "made-up"):
        pass
    assert str(caught.value) == f"{tmp_path / 'none'}: no such file or folder"
    for kind in contract.CORRUPT:
        with pytest.raises(FormatError) as caught, contract.reading(tmp_path, "made-up"):
            raise kind("x" * 400)
        said = f"{kind.__name__}: {kind('x' * 400)}"[:300]
        assert str(caught.value) == f"{tmp_path}: not a readable made-up file ({said})"
    ours = FormatError("ours")
    with pytest.raises(FormatError) as caught, contract.reading(tmp_path, "made-up"):
        raise ours
    assert caught.value is ours
    with pytest.raises(FormatError), contract.reading(tmp_path, "made-up", LookupError):
        raise LookupError
    with pytest.raises(LookupError), contract.reading(tmp_path, "made-up"):
        raise LookupError


def test_a_skeleton_is_checked_or_guessed(caplog: pytest.LogCaptureFixture) -> None:
    assert skeleton_for(18, PATH, "openpose-18") == "openpose-18"
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "posemill"):
        assert skeleton_for(18, PATH) == "openpose-18"
    with pytest.raises(FormatError) as caught:
        skeleton_for(16, PATH)
    assert str(caught.value) == (
        "here.x: no skeleton is named, so expected [17, 18, 26, 33, 42, 68, 133, 143, 468, 478, "
        "543, 553] points a frame, got 16"
    )
    with pytest.raises(FormatError, match=r"^here\.x: expected 18 points a frame, got 17$"):
        skeleton_for(17, PATH, "openpose-18")
    with pytest.raises(FormatError) as caught:
        skeleton_for(17, PATH, "y" * 90)
    known = "holistic-543, holistic-143, holistic-553, openpose-18, coco-17, coco-133"
    known += ", halpe-26, pose-33, hands-42, face-468, face-478, face-68"
    assert str(caught.value) == (
        f"here.x: unknown skeleton {'y' * 80!r}; known: {known} (another one comes with the "
        "package of its engine)"
    )


def made(points: Any, scores: Any = None, mask: Any = None, **fields: Any) -> Any:
    fields = {"clip_id": "c", "skeleton_name": "openpose-18"} | fields
    return make_clip(PATH, points, scores, mask, sizes_wh=np.zeros((len(points), 2)), **fields)


def test_a_clip_of_two_or_three_numbers_a_point() -> None:
    flat = made(np.ones((2, 18, 2), np.int64))
    assert flat.points.dtype == np.float32
    np.testing.assert_array_equal(flat.points[0, 0], [1, 1, 0])
    deep = np.full((1, 18, 3), 0.5)
    deep[0, 1], deep[0, 2] = 0, np.nan
    clip = made(deep)
    np.testing.assert_array_equal(clip.points[0, 0], [0.5] * 3)
    np.testing.assert_array_equal(clip.mask[0, :4], [True, False, False, True])
    np.testing.assert_array_equal(clip.scores[0, :4], [1, 0, 0, 1])


def test_mask_and_scores_of_the_file_count() -> None:
    mask = np.ones((1, 18), bool)
    mask[0, 3] = False
    clip = made(np.zeros((1, 18, 3)), np.full((1, 18), 0.25), mask)
    np.testing.assert_array_equal(clip.mask, mask)
    np.testing.assert_array_equal(clip.scores, np.where(mask, 0.25, 0))
    with pytest.raises(FormatError, match=r"^here\.x: clip 'c': expected scores in 0\.\.1, got 0"):
        made(np.zeros((1, 18, 3)), np.full((1, 18), 1.5), mask)


@pytest.mark.parametrize("points", [
    np.ones((18, 3)), np.ones((1, 18, 1)), np.ones((1, 18, 4)), np.ones((1, 18, 3), bool),
    np.ones((1, 18, 3), complex),
])  # fmt: skip
def test_what_are_no_points_is_refused(points: Any) -> None:
    with pytest.raises(FormatError) as caught:
        made(points, clip_id="z" * 90)
    assert str(caught.value) == (
        f"here.x: clip {'z' * 80!r}: expected numbers of shape (frames, keypoints, 2 or 3), got "
        f"{points.dtype} {points.shape}"
    )


def test_names_may_hold_foreign_bytes_and_no_half_characters() -> None:
    for mark in "\udc80\udcff":
        assert made(np.ones((1, 18, 2)), image_paths=(mark,)).image_paths == (mark,)
    for mark in "\ud800\udc7f\udd00\udfff":
        for fields in ({"clip_id": mark + "n" * 300}, {"image_paths": (mark + "n" * 300,)}):
            with pytest.raises(FormatError) as caught:
                made(np.ones((1, 18, 2)), **fields)
            shown = repr(mark + "n" * 199)
            assert str(caught.value).endswith(f": {shown} is no name: it holds half a character")


def test_info_comes_back_with_its_types() -> None:
    clip = some_clip(1, extra={"signer": "ä"})
    text = contract.info_text(clip)
    assert text.isascii()
    assert contract.read_info(text) == {"label": "SIGN 1", "fps": 25.0, "extra": {"signer": "ä"}}
    nothing = {"label": None, "fps": None, "extra": {}}
    assert contract.read_info("") == nothing
    assert contract.read_info("{}") == nothing
    found = contract.read_info(json.dumps({"label": 7, "fps": "5"}))
    assert (found["label"], found["fps"]) == ("7", 5.0)
    with pytest.raises(ValueError, match=r"^expected an object as extra, got list$"):
        contract.read_info('{"extra": []}')


def test_extra_that_is_no_json_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for extra in ({"a": {1}}, {"a": circle}):
        with pytest.raises(FormatError, match=r"^clip 'clip_1': extra cannot be written as JSON: "):
            contract.info_text(replace(some_clip(1), extra=extra))


def test_a_recipe_stays_as_it_is() -> None:
    recipe = Recipe()
    with pytest.raises(FrozenInstanceError):
        recipe.interpolate = 3  # type: ignore[misc]
