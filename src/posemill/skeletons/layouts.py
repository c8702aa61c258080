"""What a layout of points is made of, and the layouts of ours: tables, and what builds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

Bone = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """A run of points that is found or missing as one: indices `start` to `stop` (exclusive)."""

    name: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Skeleton:
    """A layout of points.

    Args:
        name: As users spell it.
        parts: In order, covering every point.
        point_names: One per point; `left_…` and `right_…` are the subject's own sides.
        bones: Pairs of indices to draw a line between.
        mirror: For each point the index of its counterpart on the other side (itself if midline).
    """

    name: str
    parts: tuple[Part, ...]
    point_names: tuple[str, ...]
    bones: tuple[Bone, ...]
    mirror: tuple[int, ...]

    def __post_init__(self) -> None:
        points = range(len(self.point_names))
        covered = [index for part in self.parts for index in range(part.start, part.stop)]
        wrong = {
            "parts: expected every point once, in order": covered != list(points),
            "parts: expected names that differ": len({*self.part_names}) != len(self.parts),
            "point_names: expected names that differ": len({*self.point_names}) != len(points),
            "bones: expected indices of points": any(
                index not in points for bone in self.bones for index in bone
            ),
            "mirror: expected each point's counterpart, whose counterpart is the point": (
                len(self.mirror) != len(points)
                or any(
                    other not in points or self.mirror[other] != index
                    for index, other in enumerate(self.mirror)
                )
            ),
        }
        if problems := [text for text, is_wrong in wrong.items() if is_wrong]:
            raise ValueError(f"skeleton {self.name!r}: {problems[0]}")

    @property
    def num_points(self) -> int:
        """How many points a frame has."""
        return len(self.point_names)

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts, in order."""
        return tuple(part.name for part in self.parts)

    def part(self, name: str) -> Part:
        """Return the part of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise ValueError(f"{self.name} has no part {name!r}; it has {', '.join(self.part_names)}")


POSE_NAMES = tuple(
    "nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer "
    "left_ear right_ear mouth_left mouth_right left_shoulder right_shoulder left_elbow right_elbow "
    "left_wrist right_wrist left_pinky right_pinky left_index right_index left_thumb right_thumb "
    "left_hip right_hip left_knee right_knee left_ankle right_ankle left_heel right_heel "
    "left_foot_index right_foot_index".split()
)
HAND_NAMES = (
    "wrist",
    *(f"thumb_{joint}" for joint in ("cmc", "mcp", "ip", "tip")),
    *(
        f"{finger}_{joint}"
        for finger in ("index", "middle", "ring", "pinky")
        for joint in ("mcp", "pip", "dip", "tip")
    ),
)
OPENPOSE_NAMES = tuple(
    "nose neck right_shoulder right_elbow right_wrist left_shoulder left_elbow left_wrist "
    "right_hip right_knee right_ankle left_hip left_knee left_ankle right_eye left_eye "
    "right_ear left_ear".split()
)
COCO_BODY_NAMES = tuple(
    "nose left_eye right_eye left_ear right_ear left_shoulder right_shoulder left_elbow "
    "right_elbow left_wrist right_wrist left_hip right_hip left_knee right_knee left_ankle "
    "right_ankle".split()
)
COCO_FEET_NAMES = tuple(
    "left_big_toe left_small_toe left_heel right_big_toe right_small_toe right_heel".split()
)
# Of the 26 of Halpe, those behind the body of COCO.
HALPE_NAMES = tuple(
    "head neck hip left_big_toe right_big_toe left_small_toe right_small_toe left_heel "
    "right_heel".split()
)

# The iBUG/dlib 68 points as indices of the 468: jaw 0-16, brows 17-26, nose 27-35, eyes 36-47,
# outer mouth 48-59, inner mouth 60-67.
FACE_68_OF_468 = (
    162, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 389,
    71, 63, 105, 66, 107, 336, 296, 334, 293, 301,
    168, 197, 5, 4, 75, 97, 2, 326, 305,
    33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380,
    61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181,
    78, 82, 13, 312, 308, 317, 14, 87,
)  # fmt: skip

# Points of the 468 on the midline. The right half's other points below 248, taken in order, have
# their mirror images at 248, 249 … (found by fitting the mirrored mean face onto itself).
FACE_468_MIDLINE = (
    0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
    94, 151, 152, 164, 168, 175, 195, 197, 199, 200,
)  # fmt: skip

FACE_468_CONTOURS = (
    # oval
    (10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152,
     148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109, 10),
    # lips: outer lower, outer upper, inner lower, inner upper
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
    # left eye and brow, right eye and brow
    (263, 249, 390, 373, 374, 380, 381, 382, 362),
    (263, 466, 388, 387, 386, 385, 384, 398, 362),
    (276, 283, 282, 295, 285), (300, 293, 334, 296, 336),
    (33, 7, 163, 144, 145, 153, 154, 155, 133),
    (33, 246, 161, 160, 159, 158, 157, 173, 133),
    (46, 53, 52, 65, 55), (70, 63, 105, 66, 107),
)  # fmt: skip

# Of the 478: the middle of the iris, then its right, upper, left and lower edge on the screen; the
# subject's right eye, then the left one.
IRISES = (tuple(range(468, 473)), tuple(range(473, 478)))

FACE_68_CONTOURS = (
    tuple(range(17)), tuple(range(17, 22)), tuple(range(22, 27)), tuple(range(27, 31)),
    tuple(range(31, 36)), (*range(36, 42), 36), (*range(42, 48), 42), (*range(48, 60), 48),
    (*range(60, 68), 60),
)  # fmt: skip

POSE_BONES: tuple[Bone, ...] = (
    (0, 1), (1, 2), (2, 3), (3, 7), (0, 4), (4, 5), (5, 6), (6, 8), (9, 10), (11, 12), (11, 13),
    (13, 15), (15, 17), (15, 19), (15, 21), (17, 19), (12, 14), (14, 16), (16, 18), (16, 20),
    (16, 22), (18, 20), (11, 23), (12, 24), (23, 24), (23, 25), (24, 26), (25, 27), (26, 28),
    (27, 29), (28, 30), (29, 31), (30, 32), (27, 31), (28, 32),
)  # fmt: skip
HAND_BONES: tuple[Bone, ...] = tuple(
    bone for finger in range(5) for bone in pairwise((0, *range(4 * finger + 1, 4 * finger + 5)))
)
OPENPOSE_BONES: tuple[Bone, ...] = (
    (1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11), (11, 12),
    (12, 13), (1, 0), (0, 14), (14, 16), (0, 15), (15, 17),
)  # fmt: skip
COCO_BODY_BONES: tuple[Bone, ...] = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (0, 1), (0, 2), (1, 3), (2, 4), (15, 17), (15, 18), (15, 19), (16, 20),
    (16, 21), (16, 22),
)  # fmt: skip

# The four sides of the trunk, for which Halpe has a spine.
_TRUNK = ((11, 12), (5, 11), (6, 12), (5, 6))
HALPE_BONES: tuple[Bone, ...] = (
    (17, 18), (18, 5), (18, 6), (18, 19), (19, 11), (19, 12), (15, 20), (15, 22), (15, 24),
    (16, 21), (16, 23), (16, 25),
)  # fmt: skip


def _chain_bones(chains: Iterable[Sequence[int]]) -> tuple[Bone, ...]:
    return tuple(bone for chain in chains for bone in pairwise(chain))


def _shifted(bones: Iterable[Bone], offset: int) -> tuple[Bone, ...]:
    return tuple((a + offset, b + offset) for a, b in bones)


def _lay_out(sizes: dict[str, int]) -> tuple[Part, ...]:
    parts, start = [], 0
    for name, size in sizes.items():
        parts.append(Part(name, start, start + size))
        start += size
    return tuple(parts)


def _hand_names(side: str) -> tuple[str, ...]:
    return tuple(f"{side}_hand_{name}" for name in HAND_NAMES)


def _swap_sides(names: Sequence[str]) -> tuple[int, ...]:
    """Return for each name the index of the one that says the other side, or its own."""
    swapped = (
        name.replace("left", "\0").replace("right", "left").replace("\0", "right") for name in names
    )
    where = {name: index for index, name in enumerate(names)}
    return tuple(where[name] for name in swapped)


def mirror_of_face(num_points: int) -> tuple[int, ...]:
    """Return each point's counterpart on the other side, in a face of 68, 468 or 478 points."""
    if num_points == 68:
        return _mirror_of_face_68()
    right_half = (index for index in range(248) if index not in FACE_468_MIDLINE)
    pairs = list(enumerate(right_half, start=248))
    if num_points == 478:
        pairs += zip(IRISES[0], (473, 476, 475, 474, 477), strict=True)
    return _swapped(num_points, pairs)


def _mirror_of_face_68() -> tuple[int, ...]:
    # Of both halves, from the outer points to the inner ones: jaw, brows, nose, eyes, mouth.
    right = (*range(8), *range(17, 22), 31, 32, *range(36, 42), 48, 49, 50, 59, 58, 60, 61, 67)
    left = (
        *range(16, 8, -1), *range(26, 21, -1), 35, 34, 45, 44, 43, 42, 47, 46,
        54, 53, 52, 55, 56, 64, 63, 65,
    )  # fmt: skip
    return _swapped(68, zip(right, left, strict=True))


def _swapped(num_points: int, pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    mirror = list(range(num_points))
    for one, other in pairs:
        mirror[one], mirror[other] = other, one
    return tuple(mirror)


def _face_contours(num_points: int) -> tuple[tuple[int, ...], ...]:
    if num_points == 68:
        return FACE_68_CONTOURS
    circles = ((*points[1:], points[1]) for points in IRISES)
    return (*FACE_468_CONTOURS, *circles) if num_points == 478 else FACE_468_CONTOURS


def _holistic(name: str, face_points: int, order: Sequence[str]) -> Skeleton:
    """Return a layout of the parts that Holistic has, of all or of some of them."""
    names = {
        "pose": POSE_NAMES,
        "face": tuple(f"face_{index}" for index in range(face_points)),
        "left_hand": _hand_names("left"),
        "right_hand": _hand_names("right"),
    }
    bones = {
        "pose": POSE_BONES,
        "face": _chain_bones(_face_contours(face_points)),
        "left_hand": HAND_BONES,
        "right_hand": HAND_BONES,
    }
    parts = _lay_out({part: len(names[part]) for part in order})
    point_names = tuple(name for part in order for name in names[part])
    mirror = list(_swap_sides(point_names))
    for face in (part for part in parts if part.name == "face"):
        face_mirror = mirror_of_face(face_points)
        mirror[face.start : face.stop] = [face.start + index for index in face_mirror]
    all_bones = tuple(bone for part in parts for bone in _shifted(bones[part.name], part.start))
    return Skeleton(name, parts, point_names, all_bones, tuple(mirror))


def _body(
    name: str, sizes: dict[str, int], names: tuple[str, ...], bones: Iterable[Bone]
) -> Skeleton:
    """Return a layout of points whose names say the sides."""
    return Skeleton(name, _lay_out(sizes), names, tuple(bones), _swap_sides(names))


def _coco_133() -> Skeleton:
    parts = _lay_out({"body": 17, "feet": 6, "face": 68, "left_hand": 21, "right_hand": 21})
    names = (
        *COCO_BODY_NAMES,
        *COCO_FEET_NAMES,
        *(f"face_{i}" for i in range(68)),
        *_hand_names("left"),
        *_hand_names("right"),
    )
    mirror = list(_swap_sides(names))
    mirror[23:91] = [23 + index for index in _mirror_of_face_68()]
    bones = (
        *COCO_BODY_BONES,
        *_shifted(_chain_bones(FACE_68_CONTOURS), 23),
        *_shifted(HAND_BONES, 91),
        *_shifted(HAND_BONES, 112),
    )
    return Skeleton("coco-133", parts, names, bones, tuple(mirror))


_BODY_17_BONES = tuple(bone for bone in COCO_BODY_BONES if max(bone) < len(COCO_BODY_NAMES))
_LIMBS = tuple(bone for bone in _BODY_17_BONES if bone not in _TRUNK)
# Those of Holistic's parts: points of the face, and the parts in their order.
_HOLISTIC: dict[str, tuple[int, tuple[str, ...]]] = {
    "holistic-543": (468, ("pose", "face", "left_hand", "right_hand")),
    "holistic-143": (68, ("face", "left_hand", "right_hand", "pose")),
    "holistic-553": (478, ("pose", "face", "left_hand", "right_hand")),
    "pose-33": (0, ("pose",)),
    "hands-42": (0, ("left_hand", "right_hand")),
    "face-468": (468, ("face",)),
    "face-478": (478, ("face",)),
    "face-68": (68, ("face",)),
}
_OTHERS: dict[str, Callable[[], Skeleton]] = {
    "openpose-18": lambda: _body("openpose-18", {"pose": 18}, OPENPOSE_NAMES, OPENPOSE_BONES),
    "coco-17": lambda: _body("coco-17", {"body": 17}, COCO_BODY_NAMES, _BODY_17_BONES),
    "coco-133": _coco_133,
    "halpe-26": lambda: _body(
        "halpe-26",
        {"body": 20, "feet": 6},
        (*COCO_BODY_NAMES, *HALPE_NAMES),
        (*_LIMBS, *HALPE_BONES),
    ),
}
_NAMES = (*list(_HOLISTIC)[:3], *_OTHERS, *list(_HOLISTIC)[3:])  # as lists show them
# name -> what builds it, when it is asked for
BUILDERS: dict[str, Callable[[], Skeleton]] = {
    name: _OTHERS.get(name) or partial(_holistic, name, *_HOLISTIC[name]) for name in _NAMES
}
# Of landmarks in metres (`PoseClip.world`). Not a skeleton that clips can have.
WORLD_LAYOUT = _holistic("world-75", 0, ("pose", "left_hand", "right_hand"))
