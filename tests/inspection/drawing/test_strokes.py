"""Strokes one by one: how wide, where, in which colour and in which order."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from posemill.inspection.drawing import strokes
from posemill.skeletons import get_skeleton
from posemill.skeletons.palette import COLOURS

RIM, WHITE = (16, 18, 22), (255, 255, 255)
OPENPOSE = get_skeleton("openpose-18")


def brush(skeleton_name: str = "openpose-18", scale: float = 1.0, **points: Any) -> Any:
    """Return a brush for some points, by name; the others are missing."""
    names = get_skeleton(skeleton_name).point_names
    places = np.full((len(names), 2), np.nan, np.float32)
    for name, place in points.items():
        places[names.index(name)] = place
    return strokes._Brush(skeleton_name, places, np.zeros(len(names), bool), scale)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is drawn, instead of drawing it."""
    made: list[tuple[Any, ...]] = []
    each = strokes._Brush

    def line(_: Any, canvas: Any, bone: Any, colour: Any, width: float) -> None:
        made.append(("line", tuple(bone), colour, pytest.approx(width)))

    def dot(_: Any, canvas: Any, index: int, colour: Any, radius: float) -> None:
        made.append(("dot", index, colour, pytest.approx(radius)))

    monkeypatch.setattr(each, "_line", line)
    monkeypatch.setattr(each, "_dot", dot)
    monkeypatch.setattr(
        strokes, "_blend", lambda layer, canvas, opacity: made.append(("blend", opacity))
    )
    return made


@pytest.mark.parametrize(("part_name", "extent", "expected"), [
    ("pose", 1200, 10), ("pose", 300, 5), ("pose", 30, 1), ("face", 9000, 10 / 3),
    ("face", 180, 2), ("left_hand", 1000, 7.5), ("left_hand", 72, 3), ("left_hand", None, 1),
])  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
def test_lines_are_thinner_where_a_part_is_small(
    part_name: str, extent: float | None, expected: float, axis: int
) -> None:
    part = get_skeleton("holistic-143").part(part_name)
    for scale in (1.0, 2.0):
        tool = brush("holistic-143", scale)
        if extent is not None:
            tool.points[part.start : part.start + 2] = 7
            tool.points[part.start, axis] += extent
        wide = expected * scale
        if extent in (None, 30):
            wide = 1.0  # never below a pixel
        assert tool._part_width(part, 2200) == pytest.approx(wide)


def test_rims_are_a_quarter_and_at_least_a_pixel() -> None:
    assert [strokes._rim(width) for width in (1, 4, 8)] == [1, 1, 2]


def test_lines_of_any_width_are_polygons(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(strokes, "_fill", lambda _, corners, colour: made.append((corners, colour)))
    monkeypatch.setattr(cv2, "line", lambda *given: made.append(given[1:]))
    tool = brush(nose=(1, 2), neck=(11, 2))
    bone = (OPENPOSE.point_names.index("nose"), OPENPOSE.point_names.index("neck"))
    tool._line(None, bone, RIM, 5.0)
    tool._line(None, bone, RIM, 1.5)
    tool._line(None, bone, RIM, 1.49)
    np.testing.assert_allclose(made[0][0], [(1, 4), (11, 4), (11, 0), (1, 0)])
    np.testing.assert_allclose(made[1][0], [(1, 2.25), (11, 2.25), (11, 1.75), (1, 1.75)])
    assert made[0][1] == RIM
    assert made[2] == ((16, 32), (176, 32), RIM, 1, cv2.LINE_AA, 4)
    tool = brush(nose=(1, 2), neck=(1, 2))
    tool._line(None, bone, RIM, 5.0)
    assert made[3] == ((16, 32), (16, 32), RIM, 1, cv2.LINE_AA, 4)
    slanted = brush(nose=(0, 0), neck=(3, 4))
    slanted._line(None, bone, RIM, 11.0)
    np.testing.assert_allclose(made[4][0], [(-4, 3), (-1, 7), (7, 1), (4, -3)], atol=1e-5)


def test_dots_are_circles_half_a_pixel_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(strokes, "_fill", lambda _, corners, colour: made.append((corners, colour)))
    tool = brush(nose=(10, 20))
    nose = OPENPOSE.point_names.index("nose")
    for radius, expected in ((3.0, 2.5), (0.5, 0.25)):
        tool._dot(None, nose, WHITE, radius)
        corners, colour = made.pop()
        assert (corners.shape, colour) == ((24, 2), WHITE)
        np.testing.assert_allclose(corners[[0, 6, 12]], [
            (10 + expected, 20), (10, 20 + expected), (10 - expected, 20)
        ], rtol=1e-5)  # fmt: skip


def test_polygons_are_filled_in_sixteenths_of_a_pixel() -> None:
    canvas = np.zeros((8, 8, 3), np.uint8)
    strokes._fill(canvas, np.array([(2, 2), (5, 2), (5, 4), (2, 4)]), (1, 2, 3))
    assert canvas[3, 3].tolist() == [1, 2, 3]
    assert canvas[2:5, 2:6].any(2).all()
    assert not canvas[:, 7].any()
    assert not canvas[6:].any()
    assert strokes._fixed(np.array([1.03, 2.5])) == (16, 40)


def test_layers_are_blended_by_their_opacity() -> None:
    layer, canvas = np.full((1, 1, 3), 100, np.uint8), np.full((1, 1, 3), 200, np.uint8)
    strokes._blend(layer, canvas, 0.25)
    assert canvas.tolist() == [[[175, 175, 175]]]


@pytest.mark.parametrize(("name", "expected"), [
    ("coco-133", ["body", "feet", "face", "left_hand", "right_hand"]),
    ("holistic-143", ["pose", "face", "left_hand", "right_hand"]),
])  # fmt: skip
def test_hands_are_drawn_last(name: str, expected: list[str]) -> None:
    order = strokes._drawing_order(name)
    assert [part.name for part, _ in order] == expected
    bones = get_skeleton(name).bones
    assert sorted(number for _, numbers in order for number in numbers) == list(range(len(bones)))
    for part, numbers in order:
        assert all(part.start <= max(bones[number]) < part.stop for number in numbers)


def test_rims_then_bones_then_joints(calls: list[tuple[Any, ...]]) -> None:
    neck, left = (OPENPOSE.point_names.index(name) for name in ("neck", "left_shoulder"))
    (bone,) = (tuple(bone) for bone in OPENPOSE.bones if set(bone) == {neck, left})
    tool = brush(neck=(0, 0), left_shoulder=(480, 0), nose=(5, 5))
    visible = np.zeros(18, bool)
    visible[[neck, left]] = True
    tool.paint(np.zeros((10, 2200, 3), np.uint8), visible)  # 8 wide: 480 / 60; rims of 2
    first, last = sorted((neck, left))
    keys = {neck: "middle", left: "left"}
    assert [call[0] for call in calls] == ["line"] * 2 + ["dot"] * 6
    assert calls[0] == ("line", bone, RIM, 12)
    assert calls[1][1] == bone
    assert calls[1][2] in COLOURS.values()
    assert calls[1][3] == 8
    assert calls[2:] == [
        call
        for index in (first, last)
        for call in (
            ("dot", index, RIM, 8.8),
            ("dot", index, COLOURS[keys[index]], 6.8),
            ("dot", index, WHITE, 3.6),
        )
    ]


def test_thin_points_have_thin_bones_and_neither_rims_nor_dots(
    calls: list[tuple[Any, ...]],
) -> None:
    neck, nose = (OPENPOSE.point_names.index(name) for name in ("neck", "nose"))
    tool = brush(neck=(0, 0), nose=(480, 0))
    tool.thin[nose] = True
    tool.paint(np.zeros((2200, 10, 3), np.uint8), ~np.isnan(tool.points[:, 0]))
    assert [(call[0], call[3]) for call in calls] == [
        ("line", 3.2), ("dot", 8.8), ("dot", 6.8), ("dot", 3.6),
    ]  # fmt: skip
    assert {call[1] for call in calls[1:]} == {neck}


def test_rims_of_a_face_are_faint_and_it_has_no_dots(calls: list[tuple[Any, ...]]) -> None:
    face = get_skeleton("holistic-143").part("face")
    tool = brush("holistic-143")
    canvas = np.zeros((10, 10, 3), np.uint8)
    tool.paint(canvas, np.zeros(143, bool))
    assert calls == []
    tool.points[face.start : face.stop] = 5
    tool.paint(canvas, ~np.isnan(tool.points[:, 0]))
    kinds = [call[0] for call in calls]
    count = kinds.index("blend")
    assert count > 0
    assert kinds == ["line"] * count + ["blend"] + ["line"] * count
    assert calls[count] == ("blend", 0.35)
    assert {call[2] for call in calls[:count]} == {RIM}
    assert {call[2] for call in calls[count + 1 :]} == {COLOURS["face"]}


def test_unsure_points_are_drawn_on_a_faint_layer(calls: list[tuple[Any, ...]]) -> None:
    points = brush(neck=(0, 0), nose=(480, 0)).points
    canvas = np.zeros((10, 2200, 3), np.uint8)
    strokes.paint_keypoints(canvas, "openpose-18", points, np.ones(18, bool))
    assert [call[0] for call in calls] == ["line"] * 2 + ["dot"] * 6
    calls.clear()
    sure = np.ones(18, bool)
    sure[OPENPOSE.point_names.index("nose")] = False
    strokes.paint_keypoints(canvas, "openpose-18", points, sure, line_scale=1.0)
    assert [call[0] for call in calls] == ["line"] * 2 + ["dot"] * 6 + ["blend"] + ["dot"] * 3
    assert calls[8] == ("blend", 0.4)


def test_body_points_are_thin_where_their_part_was_found(calls: list[tuple[Any, ...]]) -> None:
    skeleton = get_skeleton("coco-133")
    nose = skeleton.point_names.index("nose")
    points = brush("coco-133", nose=(5, 5)).points
    canvas = np.zeros((10, 10, 3), np.uint8)
    strokes.paint_keypoints(canvas, "coco-133", points, np.ones(133, bool))
    assert [call[:2] for call in calls] == [("dot", nose)] * 3
    calls.clear()
    points[skeleton.part("face").start] = 6
    strokes.paint_keypoints(canvas, "coco-133", points, np.ones(133, bool))
    assert calls == []
