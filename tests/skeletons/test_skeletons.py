import dataclasses

import pytest

from posemill.errors import ConfigError
from posemill.skeletons import (
    SKELETON_NAMES,
    Part,
    Skeleton,
    full_name,
    get_skeleton,
    guess_skeleton,
    point_map,
)
from posemill.skeletons.layouts import FACE_68_OF_468, HAND_BONES


@pytest.mark.parametrize("name", SKELETON_NAMES)
def test_the_mirror_image_of_a_point_is_that_of_the_other_side(name):
    skeleton = get_skeleton(name)
    for index, other in enumerate(skeleton.mirror):
        point = skeleton.point_names[index]
        if "left" in point:
            assert skeleton.point_names[other] == point.replace("left", "right")


def test_fingers_begin_at_the_wrist_and_orders_are_those_users_rely_on():
    assert HAND_BONES == (
        (0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 6), (6, 7), (7, 8), (0, 9), (9, 10), (10, 11),
        (11, 12), (0, 13), (13, 14), (14, 15), (15, 16), (0, 17), (17, 18), (18, 19), (19, 20),
    )  # fmt: skip
    assert get_skeleton("holistic-543").part_names == ("pose", "face", "left_hand", "right_hand")
    assert get_skeleton("holistic-143").part_names == ("face", "left_hand", "right_hand", "pose")
    assert [len(part) for part in get_skeleton("holistic-143").parts] == [68, 21, 21, 33]
    assert get_skeleton("openpose-18").point_names[:2] == ("nose", "neck")
    assert get_skeleton("holistic-543").point_names[15] == "left_wrist"


@pytest.mark.parametrize("name", SKELETON_NAMES)
def test_bones_join_two_points_none_is_doubled_and_their_mirror_images_are_bones(name):
    skeleton = get_skeleton(name)
    bones = {frozenset(bone) for bone in skeleton.bones}
    assert all(len(bone) == 2 for bone in bones)
    assert len(bones) == len(skeleton.bones)
    assert {frozenset(skeleton.mirror[point] for point in bone) for bone in bones} == bones


def test_the_refined_face_is_the_face_and_two_irises():
    refined, plain = get_skeleton("holistic-553"), get_skeleton("holistic-543")
    assert [len(part) for part in refined.parts] == [33, 478, 21, 21]
    mapped = point_map("holistic-553", "holistic-543")
    assert [refined.point_names[point] for (point,) in mapped] == list(plain.point_names)
    assert point_map("holistic-553", "coco-133")[23] == point_map("holistic-543", "coco-133")[23]
    # The edge of an iris to the right of the screen is, mirrored, the left edge of the other.
    face = refined.part("face").start
    iris = [refined.mirror[face + point] - face for point in range(468, 473)]
    assert iris == [473, 476, 475, 474, 477]
    assert (face + 472, face + 469) in refined.bones


def test_the_68_and_the_468_agree_on_left_and_right():
    small, full = get_skeleton("holistic-143"), get_skeleton("holistic-543")
    face = full.part("face").start
    for index, point in enumerate(FACE_68_OF_468):
        assert FACE_68_OF_468[small.mirror[index]] == full.mirror[face + point] - face


def test_a_map_names_its_sources_and_the_neck_has_two():
    sources = point_map("holistic-543", "openpose-18")
    assert sources[0] == (0,)
    assert sources[1] == (11, 12)
    face = get_skeleton("holistic-543").part("face").start
    of_68 = tuple((face + point,) for point in FACE_68_OF_468)
    assert point_map("holistic-543", "holistic-143")[:68] == of_68
    assert sorted(point for points in point_map("holistic-143", "holistic-143") for point in points
                  ) == list(range(143))  # fmt: skip


def test_maps_that_cannot_be_and_wrong_spellings_are_refused():
    with pytest.raises(ValueError, match="openpose-18 cannot become holistic-543: 400 of its face"):
        point_map("openpose-18", "holistic-543")
    with pytest.raises(ValueError, match="holistic-543 cannot become holistic-553: 10 of its face"):
        point_map("holistic-543", "holistic-553")
    with pytest.raises(ValueError, match="unknown skeleton 'body-25'; known: holistic-543"):
        get_skeleton("body-25")
    assert full_name("143") == "holistic-143"
    assert full_name("553") == "holistic-553"
    assert full_name("coco-133") == "coco-133"
    with pytest.raises(ConfigError, match=r"unknown skeleton 'coco133'.*did you mean 'coco-133'"):
        full_name("coco133")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": (Part("a", 0, 1),)}, "parts: expected every point once, in order"),
        ({"parts": (Part("a", 0, 1), Part("a", 1, 2))}, "parts: expected names that differ"),
        ({"point_names": ("x", "x")}, "point_names: expected names that differ"),
        ({"bones": ((0, 2),)}, "bones: expected indices of points"),
        ({"mirror": (1, 1)}, "mirror: expected each point's counterpart"),
        ({"mirror": (0,)}, "mirror: expected each point's counterpart"),
    ],
)
def test_a_skeleton_that_does_not_agree_with_itself_is_refused(change, message):
    good = Skeleton("pair-2", (Part("a", 0, 2),), ("x", "y"), ((0, 1),), (1, 0))
    with pytest.raises(ValueError, match=f"skeleton 'pair-2': {message}"):
        dataclasses.replace(good, **change)


def test_a_guess_by_the_number_of_points_is_said_once_for_a_file(caplog):
    assert guess_skeleton(133, "x.npz") == guess_skeleton(133, "x.npz") == "coco-133"
    assert caplog.text.count("x.npz does not name its skeleton; by its number of points it") == 1
    assert guess_skeleton(19, "x.npz") is None


def test_the_26_of_halpe_have_a_spine_and_become_the_others():
    halpe = get_skeleton("halpe-26")
    assert halpe.point_names[17:21] == ("head", "neck", "hip", "left_big_toe")
    assert halpe.mirror[20:26] == (21, 20, 23, 22, 25, 24)
    assert {(17, 18), (18, 19), (15, 24), (16, 21)} <= {*halpe.bones}
    assert not {(5, 11), (11, 12)} & {*halpe.bones}
    assert point_map("halpe-26", "coco-17") == tuple((index,) for index in range(17))
    assert point_map("halpe-26", "openpose-18")[1] == (18,)
    assert point_map("coco-133", "halpe-26")[17:21] == ((), (5, 6), (11, 12), (17,))
