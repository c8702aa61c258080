import numpy as np

from posemill.inspection.drawing.strokes import paint_keypoints
from posemill.skeletons import get_skeleton
from posemill.skeletons.palette import COLOURS

GREY = 128


def painted(skeleton_name="openpose-18", *, unsure=(), scale=1.0, **places):
    """Return a grey canvas with some points on it, by name; the others are missing."""
    names = get_skeleton(skeleton_name).point_names
    points = np.full((len(names), 2), np.nan, np.float32)
    for name, place in places.items():
        points[names.index(name)] = place
    canvas = np.full((600, 800, 3), GREY, np.uint8)
    sure = np.array([name not in unsure for name in names])
    paint_keypoints(canvas, skeleton_name, points, sure, line_scale=scale)
    return canvas


def height_at(picture, x):
    """Return how many pixels of a column are painted."""
    return int((picture[:, x] != GREY).any(axis=1).sum())


def test_a_bone_has_a_dark_rim_a_colour_and_joints_with_a_white_middle():
    picture = painted(neck=(200, 300), left_shoulder=(600, 300))
    column = picture[:, 400].astype(int)
    assert (np.abs(column - COLOURS["left"]).max(1) < 30).any()
    assert (column.max(1) < 80).any()  # the rim
    assert picture[300, 600].min() > 240
    assert 2 * height_at(picture, 400) < 3 * height_at(picture, 600)
    assert height_at(picture, 620) == 0


def test_lines_are_wider_where_the_person_is_larger_and_as_asked():
    large = {"neck": (200.0, 300.0), "left_shoulder": (600.0, 300.0)}
    small = {"neck": (380.0, 300.0), "left_shoulder": (420.0, 300.0)}
    heights = [height_at(painted(**person), 400) for person in (small, large)]
    assert 0 < heights[0] < heights[1]
    assert height_at(painted(**large, scale=2.0), 400) > 1.6 * heights[1]


def test_the_body_is_left_out_or_thin_where_its_part_was_found():
    face = get_skeleton("coco-133").point_names[get_skeleton("coco-133").part("face").start]
    assert (painted("coco-133", nose=(400, 300))[300, 400] != GREY).any()
    assert (painted("coco-133", nose=(400, 300), **{face: (100, 100)})[300, 400] == GREY).all()
    bone = {"nose": (200, 300), "left_eye": (600, 300)}
    wide, thin = painted("coco-133", **bone), painted("coco-133", **bone, **{face: (100, 100)})
    assert (height_at(thin, 400), height_at(wide, 400)) == (3, 7)


def test_hands_lie_on_top_of_the_body():
    names = get_skeleton("holistic-143").point_names
    hand = get_skeleton("holistic-143").part("left_hand")
    bone = next(bone for bone in get_skeleton("holistic-143").bones if bone[0] == hand.start)
    ends = {names[bone[0]]: (400.0, 200.0), names[bone[1]]: (400.0, 400.0)}
    picture = painted("holistic-143", left_shoulder=(200, 300), left_elbow=(600, 300), **ends)
    assert np.abs(picture[300, 400].astype(int) - COLOURS["left_hand"]).max() < 30


def test_lines_of_a_small_face_are_thin():
    skeleton = get_skeleton("coco-133")
    face = skeleton.part("face")
    bone = next(
        bone for bone in skeleton.bones if face.start <= min(bone) and max(bone) < face.stop
    )
    ends = [skeleton.point_names[index] for index in bone]

    def height(half):
        places = dict(zip(ends, ((400 - half, 300.0), (400 + half, 300.0)), strict=True))
        return height_at(painted("coco-133", scale=4.0, **places), 400)

    assert 0 < height(10) < height(200)
