"""Colours and words for the parts of a skeleton, the same in pictures, movies and reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from posemill.skeletons import Skeleton, get_skeleton

Colour = tuple[int, int, int]  # red, green, blue, 0..255

# Warm is the subject's left, cold the right: hues that people with any kind of colour vision tell
# apart, each light enough to stand out with a dark rim on any picture.
COLOURS: dict[str, Colour] = {
    "middle": (238, 238, 238),
    "left": (255, 138, 26),
    "right": (64, 156, 255),
    "left_hand": (255, 222, 64),
    "right_hand": (48, 226, 190),
    "face": (232, 190, 255),
}
BODY_PARTS = ("pose", "body", "feet")
# Body points that only repeat, roughly, what the face part or a hand part says better.
_HEAD_WORDS = ("nose", "eye", "ear", "mouth")
_HAND_WORDS = ("pinky", "index", "thumb")


def part_label(part_name: str) -> str:
    """Return the part's name as people read it: `left hand` for `left_hand`."""
    return part_name.replace("_", " ")


def lack_words(missing: Sequence[str]) -> str:
    """Return what a caption says about missing parts: `no face, hands`; empty where none is."""
    names = list(missing)
    if {"left_hand", "right_hand"} <= set(names):
        names = [name for name in names if not name.endswith("_hand")] + ["hands"]
    return "no " + ", ".join(map(part_label, names)) if names else ""


def part_colours(part_name: str) -> tuple[Colour, ...]:
    """Return the colours a part is drawn in: one, or left, middle and right of a body."""
    if part_name in BODY_PARTS:
        return COLOURS["left"], COLOURS["middle"], COLOURS["right"]
    return (COLOURS.get(part_name, COLOURS["middle"]),)


def side_of(point_name: str) -> str:
    """Return `left`, `right` or `middle`: the subject's side a point of the body is on."""
    words = point_name.split("_")
    return next((side for side in ("left", "right") if side in words), "middle")


@cache
def point_keys(skeleton_name: str) -> tuple[str, ...]:
    """Return for each point the key of its colour in `COLOURS`."""
    skeleton = get_skeleton(skeleton_name)
    return tuple(
        side_of(skeleton.point_names[index]) if part.name in BODY_PARTS else _key_of(part.name)
        for part in skeleton.parts
        for index in range(part.start, part.stop)
    )


@cache
def bone_keys(skeleton_name: str) -> tuple[str, ...]:
    """Return for each bone the key of its colour; a body bone across both sides is `middle`."""
    keys = point_keys(skeleton_name)
    return tuple(_joined(keys[a], keys[b]) for a, b in get_skeleton(skeleton_name).bones)


@cache
def repeated_points(skeleton_name: str) -> dict[str, tuple[int, ...]]:
    """Return, by part, the body points that are drawn thin where that part was found itself."""
    skeleton = get_skeleton(skeleton_name)
    result: dict[str, tuple[int, ...]] = {}
    for part_name in ("face", "left_hand", "right_hand"):
        if part_name in skeleton.part_names:
            result[part_name] = tuple(
                index for index in _body_points(skeleton) if _repeats(skeleton, index, part_name)
            )
    return result


def _body_points(skeleton: Skeleton) -> list[int]:
    return [
        index
        for part in skeleton.parts
        if part.name in BODY_PARTS
        for index in range(part.start, part.stop)
    ]


def _repeats(skeleton: Skeleton, index: int, part_name: str) -> bool:
    name = skeleton.point_names[index]
    if part_name == "face":
        return any(word in name for word in _HEAD_WORDS)
    # `left_foot_index` is a toe.
    is_finger = any(word in name for word in _HAND_WORDS) and "foot" not in name
    return is_finger and part_name == f"{side_of(name)}_hand"


def _key_of(part_name: str) -> str:
    return part_name if part_name in COLOURS else "middle"


def _joined(one: str, other: str) -> str:
    if one == other or other == "middle":
        return one
    return other if one == "middle" else "middle"
