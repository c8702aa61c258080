"""Which colour a part has, that there is no second one, and which body points are drawn thin."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.skeletons import get_skeleton
from posemill.skeletons.palette import (
    BACKGROUND,
    COLOURS,
    GREY,
    grade,
    hex_of,
    part_colour,
    part_colours,
    repeated_points,
)

PARTS = ("pose", "face", "left_hand", "right_hand")
# What others see of linear RGB (Machado, Oliveira and Fernandes, 2009; full strength).
VISIONS = {
    "usual": np.eye(3),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no blue": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def linear(colour):
    """Return light of each lamp, 0 to 1, for `#rrggbb`."""
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Return the contrast of WCAG 2, 1 to 21."""
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(light):
    """Return CIE L*a*b* of linear RGB."""
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = matrix @ np.clip(light, 0, 1) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("part", PARTS)
def test_parts_stand_out_on_white_paper_and_on_a_dark_ground(part):
    assert contrast(part_colour(part), "#ffffff") >= 3
    assert contrast(part_colour(part), hex_of(BACKGROUND)) >= 3


@pytest.mark.parametrize("vision", VISIONS)
def test_everyone_tells_the_parts_and_the_arms_apart(vision):
    for one, other in [*itertools.combinations(PARTS, 2), ("left", "right")]:
        lights = [
            VISIONS[vision] @ linear(hex_of(COLOURS["middle" if key == "pose" else key]))
            for key in (one, other)
        ]
        assert np.linalg.norm(lab(lights[0]) - lab(lights[1])) > 25, (one, other)


def test_charts_have_the_colours_of_pictures_and_grades_are_readable():
    for part in ("left_hand", "right_hand", "face"):
        assert [hex_of(colour) for colour in part_colours(part)] == [part_colour(part)]
    for body in ("pose", "body", "feet", "tail"):
        assert part_colour(body) == hex_of(COLOURS["middle"])
        assert COLOURS["middle"] in part_colours(body)
    grades = [grade(share) for share in (0.31, 0.6, 0.9, 0.97)]
    assert len({each.colour for each in grades}) == 4
    assert all(contrast(each.colour, "#ffffff") >= 4.5 for each in grades)
    assert contrast(GREY, "#ffffff") >= 4.5


def test_no_other_module_has_colours_of_its_own():
    # Every colour of the page, the charts, the pictures and the figures comes from the palette.
    package = Path(posemill.__file__).parent
    owned = re.compile(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b|: Colour = \(|COLOURS\b[^=\n]* = \{")
    found = {
        str(path.relative_to(package)): owned.findall(path.read_text(encoding="utf-8"))
        for path in package.rglob("*.py")
        if "colo" in path.read_text(encoding="utf-8")
    }
    assert found["skeletons/palette.py"]
    assert {name: colours for name, colours in found.items() if colours} == {
        "skeletons/palette.py": found["skeletons/palette.py"]
    }


@pytest.mark.parametrize("skeleton_name", ["holistic-543", "holistic-143"])
def test_body_points_that_the_face_and_the_hands_have_too_are_drawn_thin(skeleton_name):
    skeleton = get_skeleton(skeleton_name)
    found = repeated_points(skeleton_name)
    names = {part: {skeleton.point_names[index] for index in points}
             for part, points in found.items()}  # fmt: skip
    assert list(found) == ["face", "left_hand", "right_hand"]
    assert names["left_hand"] == {"left_pinky", "left_index", "left_thumb"}
    assert names["right_hand"] == {"right_pinky", "right_index", "right_thumb"}
    assert names["face"] == {
        "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye",
        "right_eye_outer", "left_ear", "right_ear", "mouth_left", "mouth_right",
    }  # fmt: skip
    pose = skeleton.part("pose")
    assert repeated_points("openpose-18") == {}
    for points in found.values():
        assert all(pose.start <= index < pose.stop for index in points), "of the body alone"
