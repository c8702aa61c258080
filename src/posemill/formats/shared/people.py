"""Points as other programs have them: in pixels, and of several people of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posemill.errors import ContentError
from posemill.formats.shared.contract import make_clip
from posemill.formats.shared.json_text import numbers
from posemill.formats.shared.losses import LEAST_SCORE
from posemill.records import FloatArray, IntArray, OtherPeople, PersonIds, PoseClip
from posemill.skeletons import get_skeleton
from posemill.tracker import slots_of

LOOKED_AT = 256  # frames
# Normalised points are rarely outside -1..2; a median beyond this is one of pixels.
_LEAST_PIXELS = 4


def are_pixels(points: npt.NDArray[Any]) -> bool:
    """Return whether `(frames, keypoints, 2 or 3)` of another maker are pixels, by some medians."""
    step = max(1, len(points) // LOOKED_AT)
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(points[::step, :, :2], np.float32))
    values = values[np.isfinite(values) & (values > 0)]
    return bool(values.size and np.median(values) > _LEAST_PIXELS)


def from_pixels(
    pixels: npt.NDArray[Any], sizes_wh: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Return `(frames, keypoints, 2 or 3)` divided by the pictures' sizes, z by their width."""
    if not (sizes_wh > 0).all():
        raise ContentError(
            "x and y are pixels of pictures whose sizes are not known; give one by "
            "{--size:WIDTHxHEIGHT}"
        )
    with np.errstate(all="ignore"):  # what is not a number is refused later
        scale = sizes_wh[:, [0, 1, 0][: pixels.shape[2]]].astype(np.float32)
        return (pixels / scale[:, None]).astype(np.float32)


def to_pixels(clip: PoseClip) -> npt.NDArray[np.float64]:
    """Return `(frames, keypoints, 3)`: x and y in pixels and score, zeros where missing."""
    pixels = np.zeros((*clip.scores.shape, 3))
    found = clip.mask
    pixels[..., :2][found] = np.round(clip.pixels()[found].astype(np.float64), 3)
    scores = np.maximum(clip.scores[found].astype(np.float64), LEAST_SCORE)
    pixels[..., 2][found] = np.round(scores, 6)
    return pixels


def clip_of_rows(
    frames: IntArray,
    points: npt.NDArray[Any],
    scores: npt.NDArray[Any],
    mask: npt.NDArray[np.bool_],
    *,
    ids: IntArray | None,
    sizes_wh: npt.NDArray[np.int32],
    skeleton_name: str,
    world: FloatArray | None = None,
    keeps_people: bool = False,
    **fields: Any,
) -> PoseClip:
    """Return the clip of people, a row each, the first of a frame being who stands for it.

    `frames` `(rows,)` say, rising, in which of the frames of `sizes_wh` each is. Points, scores and
    mask are as in `make_clip`; `ids` `(rows,)` as in `PersonIds`, None where nobody knows them.
    With `keeps_people` the clip has `others`, even if no frame has any.
    """
    is_first = np.diff(frames, prepend=-1) > 0
    fields |= {"sizes_wh": sizes_wh, "skeleton_name": skeleton_name}
    if is_first.all() and len(frames) == len(sizes_wh) and not keeps_people:
        return make_clip(points, scores, mask, world=world, **fields)

    def of_frames(rows: npt.NDArray[Any], missing: Any = 0) -> npt.NDArray[Any]:
        values = np.full((len(sizes_wh), *rows.shape[1:]), missing, rows.dtype)
        values[frames[is_first]] = rows[is_first]
        return values

    fields |= {"world": None if world is None else of_frames(world, np.nan)}
    clip = make_clip(of_frames(points), of_frames(scores), of_frames(mask), **fields)
    if is_first.all() and not keeps_people:
        return clip
    rest = make_clip(
        points[~is_first],
        scores[~is_first],
        mask[~is_first],
        sizes_wh=sizes_wh[frames[~is_first]],
        skeleton_name=skeleton_name,
        world=None if world is None else world[~is_first],
    )
    people = OtherPeople(
        np.bincount(frames[~is_first], minlength=len(sizes_wh)),
        rest.points,
        rest.scores,
        rest.world,
        None if ids is None else PersonIds(of_frames(ids), ids[~is_first]),
    )
    return replace(clip, others=people)


class Person(NamedTuple):
    """A person of a frame: points as `to_pixels` gives them, and the id along the clip, or 0."""

    points: npt.NDArray[np.float64]
    person_id: int = 0


def people_in_pixels(clip: PoseClip) -> list[list[Person]]:
    """Return the people of every frame who have a point; the one that stands for it first."""
    rows = clip.everybody()
    flat = PoseClip(rows.points, rows.scores, clip.sizes_wh[rows.frames], clip.skeleton_name)
    people: list[list[Person]] = [[] for _ in range(len(clip))]
    for frame, points, person_id in zip(rows.frames, to_pixels(flat), rows.ids, strict=True):
        if points[:, 2].any():
            people[frame].append(Person(points, int(person_id)))
    return people


def clip_of_people(
    frames: Sequence[Sequence[Person]],
    skeleton_name: str,
    *,
    sizes_wh: npt.NDArray[np.int32],
    **fields: Any,
) -> PoseClip:
    """Return the clip of the people of each frame, of whom the first stands for it.

    Points beyond those of the skeleton are left out; `sizes_wh` are `(frames, 2)`.
    """
    from_pixels(np.zeros((len(sizes_wh), 1, 2)), sizes_wh)  # all must be known
    people = [person for frame in frames for person in frame]
    counts = np.array([len(frame) for frame in frames], np.int64)
    rows = np.repeat(np.arange(len(frames)), counts)
    pixels = np.zeros((len(people), get_skeleton(skeleton_name).num_points, 3))
    for row, person in enumerate(people):
        pixels[row, : len(person.points)] = person.points[: pixels.shape[1]]
    ids = np.array([person.person_id for person in people], np.int64)
    is_known = (ids[counts[rows] > 1] > 0).all()
    return clip_of_rows(
        rows,
        from_pixels(pixels[..., :2], sizes_wh[rows]),
        np.clip(pixels[..., 2], 0, 1),
        pixels[..., 2] > 0,
        ids=ids if is_known else None,
        sizes_wh=sizes_wh,
        skeleton_name=skeleton_name,
        **fields,
    )


def points_by_part(
    person: Mapping[str, Any], fields: Mapping[str, tuple[str, int]]
) -> npt.NDArray[np.float64]:
    """Return the `(133, 3)` of coco-133, from lists of x, y, score; zeros where missing.

    `fields` name a part and how many points are listed; those that the part lacks are left out.
    """
    skeleton = get_skeleton("coco-133")
    points = np.zeros((skeleton.num_points, 3))
    for key, (name, count) in fields.items():
        listed, part = numbers(person.get(key) or [], 3, what=key), skeleton.part(name)
        if len(listed) not in (0, count, len(part)):
            raise ValueError(f"{key}: expected {count} points, got {len(listed)}")
        points[part.start : part.stop][: len(listed)] = listed[: len(part)]
    return points


def stack_people(clip: PoseClip) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Return everybody at a place of their own along the clip, see `posemill.tracker.slots_of`.

    Pixels `(frames, people, keypoints, 3)`, z in those of the width, and scores: 0 where not found,
    else scores are above it; the place of who stands for each frame; and ids `(frames, people)`.
    """
    points, scores = clip.points[:, None], clip.scores[:, None]
    first, ids = np.zeros(len(clip), np.int64), np.zeros((len(clip), 1), np.int64)
    if clip.others is not None and clip.others.counts.any():
        people, slots = clip.everybody(), slots_of(clip)
        shape = (len(clip), slots.max() + 1)
        points = np.full((*shape, *clip.points.shape[1:]), np.nan, np.float32)
        scores, ids = np.zeros(points.shape[:3], np.float32), np.zeros(shape, np.int64)
        for values, rows in ((points, people.points), (scores, people.scores), (ids, people.ids)):
            values[people.frames[slots >= 0], slots[slots >= 0]] = rows[slots >= 0]
        first = np.maximum(slots[np.diff(people.frames, prepend=-1) > 0], 0)
    is_found = ~np.isnan(points[..., 0])
    width, height = first_size(clip)
    pixels = points * np.array([width, height, width], np.float32)
    return (
        np.where(is_found[..., None], pixels, np.float32(0)),
        np.where(is_found, np.maximum(scores, LEAST_SCORE), 0).astype(np.float32),
        first,
        ids,
    )


def first_size(clip: PoseClip) -> tuple[int, int]:
    """Return width and height of the first picture, for formats with one size of a clip."""
    width, height = clip.sizes_wh[0].tolist() if len(clip) else (0, 0)
    return width, height


def clip_of_axis(
    points: FloatArray, scores: FloatArray, *, first: IntArray, ids: IntArray | None, **fields: Any
) -> PoseClip:
    """Return the clip of `(frames, people, keypoints, 2 or 3)`: of each frame those found in it.

    Scores are above 0 where found; `first` `(frames,)` says who stands for each frame, `ids` are
    `(frames, people)`, None where nobody knows them.
    """
    frames, people = np.nonzero((scores > 0).any(axis=2))
    order = np.lexsort((people != first[frames], frames))
    frames, people = frames[order], people[order]
    scores = scores[frames, people]
    return clip_of_rows(
        frames,
        points[frames, people],
        np.clip(scores, 0, 1),
        scores > 0,
        ids=None if ids is None else ids[frames, people],
        **fields,
    )
