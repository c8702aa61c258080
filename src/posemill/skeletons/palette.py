"""The one palette: colours and words for the parts of a skeleton, and for bad to good."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from posemill.messages import Message, join
from posemill.skeletons import get_skeleton

Colour = tuple[int, int, int]  # red, green, blue, 0..255

# Warm is the subject's left, cold the right. Told apart with any kind of colour vision, and neither
# too light for white paper nor too dark for a dark picture; tests/skeletons/test_palette.py has
# the limits. Arms and legs are halfway between the body and the hand of their side.
COLOURS: dict[str, Colour] = {
    "middle": (138, 138, 112),
    "left": (182, 122, 62),
    "right": (81, 139, 158),
    "left_hand": (226, 106, 12),
    "right_hand": (24, 140, 204),
    "face": (168, 40, 236),
}
# Of the 18 points of OpenPose, and of its limbs, on the black maps that generators of pictures were
# taught: once around the hues.
OPENPOSE_COLOURS: tuple[Colour, ...] = (
    (255, 0, 0), (255, 85, 0), (255, 170, 0), (255, 255, 0), (170, 255, 0), (85, 255, 0),
    (0, 255, 0), (0, 255, 85), (0, 255, 170), (0, 255, 255), (0, 170, 255), (0, 85, 255),
    (0, 0, 255), (85, 0, 255), (170, 0, 255), (255, 0, 255), (255, 0, 170), (255, 0, 85),
)  # fmt: skip
# On the dark ground of legends and contact sheets, and on white paper.
BACKGROUND: Colour = (27, 30, 36)
BRIGHT: Colour = (236, 238, 242)
DIM: Colour = (160, 166, 176)
ALARM: Colour = (255, 120, 110)
RIM: Colour = (16, 18, 22)  # around every line and dot
# Around the lines of people who are followed, by their ids.
PEOPLE_COLOURS: tuple[Colour, ...] = (
    (16, 18, 22), (255, 255, 255), (255, 214, 10), (52, 199, 89), (255, 55, 95), (90, 200, 250),
    (191, 90, 242), (255, 149, 0),
)  # fmt: skip
INK, GREY, GRID, EMPTY = "#1d232b", "#4d5866", "#dde1e7", "#eceff3"


def person_colour(person_id: int) -> Colour:
    """Return the colour around the lines of a person; that of person 1 for 0, nobody's id."""
    return PEOPLE_COLOURS[(max(person_id, 1) - 1) % len(PEOPLE_COLOURS)]


class Grade(NamedTuple):
    """How good a share is: a word, and a colour on which white text is easy to read."""

    word: str
    colour: str


_GRADES = (
    (0.95, Grade("good", "#00695c")),
    (0.80, Grade("fair", "#44607a")),
    (0.50, Grade("weak", "#8a5300")),
    (0.00, Grade("bad", "#a3201d")),
)
GOOD, BAD = _GRADES[0][1].colour, _GRADES[-1][1].colour


def grade(share: float) -> Grade:
    """Return how good a share (0 to 1, of what should be all) is."""
    return next((each for least, each in _GRADES if share >= least), _GRADES[-1][1])


def hex_of(colour: Colour) -> str:
    """Return a colour as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def rgb_of(colour: str) -> Colour:
    """Return the colour that is written `#rrggbb`."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def part_colour(part_name: str) -> str:
    """Return the one colour of a part in charts, as `#rrggbb`."""
    return hex_of(COLOURS[_key_of(part_name)])


BODY_PARTS = ("pose", "body", "feet")
# Body points that only repeat, roughly, what the face part or a hand part says better.
_HEAD_WORDS = ("nose", "eye", "ear", "mouth")
_HAND_WORDS = ("pinky", "index", "thumb")


def part_label(part_name: str) -> Message:
    """Return the part's name as people read it: `left hand` for `left_hand`."""
    return Message(part_name.replace("_", " "))


def lack_words(missing: Sequence[str]) -> str:
    """Return what a caption says about missing parts: `no face, hands`; empty where none is."""
    names = list(missing)
    if {"left_hand", "right_hand"} <= set(names):
        names = [name for name in names if not name.endswith("_hand")] + ["hands"]
    return Message("no {parts}", parts=join(", ", map(part_label, names))) if names else ""


def part_colours(part_name: str) -> tuple[Colour, ...]:
    """Return the colours a part is drawn in: one, or left, middle and right of a body."""
    if part_name in BODY_PARTS:
        return COLOURS["left"], COLOURS["middle"], COLOURS["right"]
    return (COLOURS[_key_of(part_name)],)


def side_of(point_name: str) -> str:
    """Return `left`, `right` or `middle`: the subject's side a point of the body is on."""
    return next((side for side in ("left", "right") if side in point_name.split("_")), "middle")


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
    ends = ({keys[a], keys[b]} - {"middle"} for a, b in get_skeleton(skeleton_name).bones)
    return tuple(sides.pop() if len(sides) == 1 else "middle" for sides in ends)


@cache
def repeated_points(skeleton_name: str) -> dict[str, tuple[int, ...]]:
    """Return, by part, the body points that are drawn thin where that part was found itself."""
    skeleton = get_skeleton(skeleton_name)
    body_parts = [part for part in skeleton.parts if part.name in BODY_PARTS]
    body = [index for part in body_parts for index in range(part.start, part.stop)]
    return {
        name: tuple(index for index in body if _repeats(skeleton.point_names[index], name))
        for name in ("face", "left_hand", "right_hand")
        if name in skeleton.part_names
    }


def _repeats(name: str, part_name: str) -> bool:
    if part_name == "face":
        return any(word in name for word in _HEAD_WORDS)
    # `left_foot_index` is a toe.
    is_finger = any(word in name for word in _HAND_WORDS) and "foot" not in name
    return is_finger and part_name == f"{side_of(name)}_hand"


def _key_of(part_name: str) -> str:
    return part_name if part_name in COLOURS else "middle"
