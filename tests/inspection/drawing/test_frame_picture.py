"""Pictures of single frames: what is drawn where, what is said, what is never done."""

import dataclasses

import numpy as np
import pytest

from posemill.inspection.drawing import frame_picture, lettering
from posemill.inspection.drawing.frame_picture import Cell, contact_sheet, draw, draw_cell
from posemill.skeletons import SKELETON_NAMES, get_skeleton
from posemill.skeletons.palette import ALARM, BACKGROUND, BRIGHT, COLOURS, bone_keys

GREY = 128


def grey_frame(width=320, height=240):
    return np.full((height, width, 3), GREY, np.uint8)


def changed(picture):
    return (picture != GREY).any(2)


def near(picture, x, y, colour):
    """Whether some pixel within 6 px of a place (as shares) has nearly that colour."""
    column, row = round(x * picture.shape[1]), round(y * picture.shape[0])
    patch = picture[max(0, row - 6) : row + 7, max(0, column - 6) : column + 7].astype(int)
    return bool((np.abs(patch - np.array(colour)).max(2) < 30).any())


@pytest.mark.parametrize("skeleton_name", SKELETON_NAMES)
def test_every_bone_colours_the_middle_between_its_ends(skeleton_name, make_clip):
    clip = make_clip(skeleton_name=skeleton_name)
    picture = draw(grey_frame(), clip, 0, legend=False)
    painted = changed(picture)
    for a, b in clip.skeleton.bones:
        x, y = clip.points[0, [a, b], :2].mean(0)
        assert painted[round(y * picture.shape[0]), round(x * picture.shape[1])]


WITH_ARMS = [name for name in SKELETON_NAMES if "left_elbow" in get_skeleton(name).point_names]


@pytest.mark.parametrize("skeleton_name", WITH_ARMS)
def test_left_and_right_arms_have_their_own_colours(skeleton_name, make_clip):
    clip = make_clip(skeleton_name=skeleton_name, missing=())
    picture = draw(grey_frame(), clip, 0, legend=False)
    names = get_skeleton(skeleton_name).point_names
    for side, other in (("left", "right"), ("right", "left")):
        ends = [names.index(f"{side}_shoulder"), names.index(f"{side}_elbow")]
        x, y = clip.points[0, ends, :2].mean(0)
        assert near(picture, x, y, COLOURS[side])
        assert not near(picture, x, y, COLOURS[other])


@pytest.mark.parametrize("skeleton_name", SKELETON_NAMES)
def test_bone_colours_are_mirrored_with_the_skeleton(skeleton_name):
    skeleton, keys = get_skeleton(skeleton_name), bone_keys(skeleton_name)
    swap = {"left": "right", "right": "left", "left_hand": "right_hand", "right_hand": "left_hand"}
    by_bone = {frozenset(bone): key for bone, key in zip(skeleton.bones, keys, strict=True)}
    for (a, b), key in zip(skeleton.bones, keys, strict=True):
        twin = by_bone[frozenset((skeleton.mirror[a], skeleton.mirror[b]))]
        assert twin == swap.get(key, key)


def test_missing_parts_are_named_and_not_drawn(said, make_clip):
    clip = make_clip(missing=("left_hand", "face"))
    picture = draw(grey_frame(), clip, 0)
    assert {"left hand missing", "face missing", "right hand", "pose"} <= set(said)
    assert "left hand" not in said
    assert "original picture not available" not in said
    assert not near(picture[:540], 0.65, 0.68, COLOURS["left_hand"])


def test_a_blank_canvas_says_that_the_original_is_gone(said, make_clip):
    picture = draw(None, make_clip(), 0, legend=False)
    assert said == ["original picture not available"]
    assert picture.shape == (540, 720, 3)
    said.clear()
    nobody = make_clip(missing=("pose", "face", "left_hand", "right_hand"))
    assert not changed(draw(grey_frame(), nobody, 0)[:540]).any()
    assert sum(line.endswith("missing") for line in said) == 4


@pytest.mark.usefixtures("no_fonts")
def test_title_names_clip_and_frame_in_letters_the_font_has(said, make_clip):
    clip = make_clip(clip_id="Grüße/中\n1", frame_indices=np.arange(10) + 40)
    draw(grey_frame(), clip, 2)
    assert said[0] == r"Gru\xdfe/\u4e2d\n1  frame 42"


def test_small_pictures_are_enlarged_and_lines_grow_with_the_picture(make_clip):
    clip = make_clip(size_wh=(210, 260))
    assert draw(grey_frame(210, 260), clip, 0, legend=False).shape == (720, 582, 3)
    frame = grey_frame(1280, 720)
    assert draw(frame, clip, 0, legend=False).shape == (720, 1280, 3)
    assert (frame == GREY).all(), "the given frame is not modified"

    def share(width, height):
        picture = draw(grey_frame(width, height), make_clip(), 0, legend=False, min_long_side=1)
        return float(changed(picture).mean())

    assert share(1600, 1200) == pytest.approx(share(800, 600), rel=0.25)


def test_unsure_points_are_fainter_and_the_legend_says_so(said, make_clip):
    clip = make_clip(missing=("left_hand", "right_hand", "face"))
    sure = draw(grey_frame(), clip, 0)
    assert not any("faint" in line for line in said)
    unsure = draw(grey_frame(), dataclasses.replace(clip, scores=clip.scores * 0.4), 0)
    assert "faint: score below 0.5" in said
    difference = [np.abs(p[:540].astype(int) - GREY).sum() for p in (sure, unsure)]
    assert 0 < difference[1] < 0.7 * difference[0]


def test_points_far_away_and_absurd_frames_do_no_harm_and_wrong_arguments_are_named(make_clip):
    clip = make_clip(missing=("face",))
    clip.points[0, 11:14] = [[1e30], [np.inf], [-1e9]]
    clip.sizes_wh[0] = (2_000_000_000, 1)
    assert draw(grey_frame(), clip, 0).shape[1] == 720
    assert draw(None, clip, 0, legend=False).size < 10_000_000
    with pytest.raises(
        ValueError, match=r"expected \(height, width, 3\) uint8, got \(4, 4\) uint8"
    ):
        draw(np.zeros((4, 4), np.uint8), make_clip(), 0)
    with pytest.raises(IndexError):
        draw(None, make_clip(3), 3)


def test_points_scaled_for_a_model_are_fitted_into_a_canvas_not_drawn_on_the_picture(
    make_clip, said
):
    clip = make_clip(size_wh=(0, 0))  # a file that says nothing of its pictures
    clip.points[:] = (clip.points - 0.5) * 40
    picture = draw(grey_frame(), clip, 0, legend=False)
    assert said == ["keypoints scaled for a model: not on a picture"]
    painted = (picture != BACKGROUND).any(2)[60:]
    assert painted.mean() > 0.01
    assert np.ptp(np.flatnonzero(painted.any(1))) > 0.5 * picture.shape[0]


def test_pictures_of_another_shape_are_shown_whole_and_a_sheet_of_nothing_is_refused():
    wide = np.zeros((100, 400, 3), np.uint8)
    wide[:, 0], wide[:, -1] = (255, 0, 0), (0, 255, 0)
    cells = [Cell(np.full((240, 320, 3), 99, np.uint8), "a")] * 3 + [Cell(wide, "wide")]
    sheet = contact_sheet(cells, part_names=["pose"], title="")
    assert (sheet[..., 0].astype(int) - sheet[..., 1] > 120).any()
    assert (sheet[..., 1].astype(int) - sheet[..., 0] > 120).any()
    with pytest.raises(ValueError, match="cells: expected at least one, got none"):
        contact_sheet([], part_names=["pose"], title="")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ((), ""),
        (("left_hand",), "no left hand"),
        (("left_hand", "right_hand"), "no hands"),
        (("face", "left_hand", "right_hand"), "no face, hands"),
    ],
)
def test_captions_say_what_is_missing(make_clip, missing, words, said):
    clip = make_clip(missing=missing)
    cell = draw_cell(None, clip, 0, caption="frame 0")
    assert cell.missing == missing
    said.clear()
    contact_sheet([cell], part_names=clip.skeleton.part_names, title="t")
    assert said[:2] == ["frame 0", words]


def test_cells_lie_in_even_rows_with_gaps_and_captions_below():
    levels = [60, 90, 120, 150, 180]
    cells = [Cell(np.full((240, 320, 3), level, np.uint8), "") for level in levels]
    sheet = contact_sheet(cells, part_names=["pose"], title="")
    places = []
    for level in levels:
        rows, columns = np.nonzero((sheet == level).all(2))
        places.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    assert places == [
        (8, 8, 328, 248), (336, 8, 656, 248), (8, 280, 328, 520), (336, 280, 656, 520),
        (8, 552, 328, 792),
    ]  # fmt: skip
    assert sheet.shape[1] == 664


@pytest.mark.parametrize(
    ("count", "shape", "size_wh"),
    [
        (1, (240, 320), (336, 340)),
        (4, (240, 320), (664, 612)),
        (1, (10, 100), (336, 228)),  # flat as they are, cells are not flatter than 0.4
        (1, (900, 100), (336, 740)),  # nor higher than twice their width
    ],
)
def test_a_sheet_is_as_large_as_its_cells(count, shape, size_wh):
    cells = [Cell(np.zeros((*shape, 3), np.uint8), "")] * count
    sheet = contact_sheet(cells, part_names=["pose"], title="")
    assert sheet.shape[1::-1] == size_wh


def test_captions_begin_left_and_what_is_missing_ends_right(monkeypatch):
    said = []
    monkeypatch.setattr(frame_picture, "write_text", lambda strip, text, at, **how: said.append(
        (strip.shape, text, at, how["height"], how["colour"])))  # fmt: skip
    strip = np.zeros((40, 320, 3), np.uint8)
    frame_picture._write_caption(strip, Cell(strip, "frame 7", ("face",)))
    width = lettering.text_size("no face", 10)
    assert said == [
        ((40, 320, 3), "frame 7", (0, 16), 10, BRIGHT),
        ((40, 320, 3), "no face", (320 - width, 16), 10, ALARM),
    ]
    said.clear()
    frame_picture._write_caption(strip, Cell(strip, "a long name " * 9, ("face",)))
    caption, lack = (text for _, text, *_ in said)
    assert lettering.text_size(caption, 10) <= 320 - width - 10
    assert lack == "no face"


def test_a_cell_is_drawn_large_with_thick_lines_and_no_legend(make_clip, monkeypatch):
    asked = []

    def note(frame, clip, index, **how):
        asked.append((index, how))
        return np.zeros((3, 3, 3), np.uint8)

    monkeypatch.setattr(frame_picture, "draw", note)
    assert draw_cell(None, make_clip(), 4, caption="x").caption == "x"
    assert asked == [(4, {"legend": False, "min_long_side": 480, "line_scale": 1.4})]
