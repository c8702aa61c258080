"""What a layout of points is made of, and the layouts of ours: tables, and what builds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

from posemill.errors import ConfigError
from posemill.plugins import hint

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
    """A layout of points."""

    name: str
    parts: tuple[Part, ...]  # in order, covering every point
    point_names: tuple[str, ...]  # `left_…` and `right_…` are the subject's own sides
    bones: tuple[Bone, ...]  # pairs of indices to draw a line between
    mirror: tuple[int, ...]  # of each point's counterpart on the other side (itself if midline)

    def __post_init__(self) -> None:
        points = range(len(self.point_names))
        covered = [*chain(*(range(part.start, part.stop) for part in self.parts))]
        wrong = {
            "parts: expected every point once, in order": covered != list(points),
            "parts: expected names that differ": len({*self.part_names}) != len(self.parts),
            "point_names: expected names that differ": len({*self.point_names}) != len(points),
            "bones: expected indices of points": not {*chain(*self.bones)} <= {*points},
            "mirror: expected each point's counterpart, whose counterpart is the point": (
                sorted(self.mirror) != [*points]
                or [self.mirror[other] for other in self.mirror] != [*points]
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
        template = "{skeleton} has no part {name!r}; it has {parts}{near}"
        parts, near = ", ".join(self.part_names), hint(name, self.part_names)
        raise ConfigError(template, skeleton=self.name, name=name, parts=parts, near=near)


POSE_NAMES = tuple(
    "nose left_eye_inner left_eye left_eye_outer right_eye_inner right_eye right_eye_outer "
    "left_ear right_ear mouth_left mouth_right left_shoulder right_shoulder left_elbow right_elbow "
    "left_wrist right_wrist left_pinky right_pinky left_index right_index left_thumb right_thumb "
    "left_hip right_hip left_knee right_knee left_ankle right_ankle left_heel right_heel "
    "left_foot_index right_foot_index".split()
)
HAND_NAMES = tuple(
    "wrist thumb_cmc thumb_mcp thumb_ip thumb_tip index_mcp index_pip index_dip index_tip "
    "middle_mcp middle_pip middle_dip middle_tip ring_mcp ring_pip ring_dip ring_tip "
    "pinky_mcp pinky_pip pinky_dip pinky_tip".split()
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

Points = tuple[tuple[str, ...], tuple[Bone, ...]]  # of a part: their names, and its bones


def _face(num_points: int) -> Points:
    contours = list[tuple[int, ...]](FACE_68_CONTOURS if num_points == 68 else FACE_468_CONTOURS)
    if num_points == 478:
        contours += [(*points[1:], points[1]) for points in IRISES]
    names = tuple(f"face_{index}" for index in range(num_points))
    return names, tuple(bone for contour in contours for bone in pairwise(contour))


_POSE: Points = (POSE_NAMES, POSE_BONES)
_HANDS: dict[str, Points] = {
    f"{side}_hand": (tuple(f"{side}_hand_{name}" for name in HAND_NAMES), HAND_BONES)
    for side in ("left", "right")
}
_HALPE = (*COCO_BODY_NAMES, *HALPE_NAMES)
_BODY_17_BONES = tuple(bone for bone in COCO_BODY_BONES if max(bone) < len(COCO_BODY_NAMES))
_LIMBS = tuple(bone for bone in _BODY_17_BONES if bone not in _TRUNK)
# The parts of each in their order; the bones of a body may lead to its feet.
LAYOUTS: dict[str, dict[str, Points]] = {
    "holistic-543": {"pose": _POSE, "face": _face(468), **_HANDS},
    "holistic-143": {"face": _face(68), **_HANDS, "pose": _POSE},
    "holistic-553": {"pose": _POSE, "face": _face(478), **_HANDS},
    "openpose-18": {"pose": (OPENPOSE_NAMES, OPENPOSE_BONES)},
    "coco-17": {"body": (COCO_BODY_NAMES, _BODY_17_BONES)},
    "coco-133": {
        "body": (COCO_BODY_NAMES, COCO_BODY_BONES),
        "feet": (COCO_FEET_NAMES, ()),
        "face": _face(68),
        **_HANDS,
    },
    "halpe-26": {"body": (_HALPE[:20], (*_LIMBS, *HALPE_BONES)), "feet": (_HALPE[20:], ())},
    "pose-33": {"pose": _POSE},
    "hands-42": _HANDS,
    "face-468": {"face": _face(468)},
    "face-478": {"face": _face(478)},
    "face-68": {"face": _face(68)},
}


def build_skeleton(name: str, layout: dict[str, Points]) -> Skeleton:
    """Return a skeleton of these parts; the names of points say which are those of a side."""
    names = tuple(name for part_names, _ in layout.values() for name in part_names)
    parts: list[Part] = []
    bones: list[Bone] = []
    where = {name: index for index, name in enumerate(names)}
    swapped = (name.replace("left", "\0").replace("right", "left") for name in names)
    mirror = [where[name.replace("\0", "right")] for name in swapped]
    for part, (part_names, part_bones) in layout.items():
        start = parts[-1].stop if parts else 0
        parts.append(Part(part, start, start + len(part_names)))
        bones += [(one + start, other + start) for one, other in part_bones]
        if part == "face":
            mirrored = mirror_of_face(len(part_names))
            mirror[start : parts[-1].stop] = [start + index for index in mirrored]
    return Skeleton(name, tuple(parts), names, tuple(bones), tuple(mirror))


def mirror_of_face(num_points: int) -> tuple[int, ...]:
    """Return each point's counterpart on the other side, in a face of 68, 468 or 478 points."""
    if num_points == 68:
        # Of both halves, from the outer points to the inner ones: jaw, brows, nose, eyes, mouth.
        right = (*range(8), *range(17, 22), 31, 32, *range(36, 42), 48, 49, 50, 59, 58, 60, 61, 67)
        left = (
            *range(16, 8, -1), *range(26, 21, -1), 35, 34, 45, 44, 43, 42, 47, 46,
            54, 53, 52, 55, 56, 64, 63, 65,
        )  # fmt: skip
        pairs = list(zip(right, left, strict=True))
    else:
        right_half = (index for index in range(248) if index not in FACE_468_MIDLINE)
        pairs = list(enumerate(right_half, start=248))
    if num_points == 478:
        pairs += zip(IRISES[0], (473, 476, 475, 474, 477), strict=True)
    mirror = list(range(num_points))
    for one, other in pairs:
        mirror[one], mirror[other] = other, one
    return tuple(mirror)


# Of landmarks in metres (`PoseClip.world`). Not a skeleton that clips can have.
WORLD_LAYOUT = build_skeleton("world-75", {"pose": _POSE, **_HANDS})
