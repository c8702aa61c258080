"""The value objects all parts share: `Clip` (what is to be read), `Keypoints`, `PoseClip`.

And the names of splits, with one list of aliases for folders, labels, data and flags.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from posemill.errors import import_optional
from posemill.skeletons import WORLD_LAYOUT, Skeleton, get_skeleton, point_map

Frame = npt.NDArray[np.uint8]  # (height, width, 3), RGB
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
NORMALIZATIONS = ("none", "shoulders", "bbox")
SMOOTHINGS = ("none", "one-euro", "gaussian", "savgol")
# Splits in their usual order; all that folders and files are recognised by.
SPLIT_NAMES = ("train", "dev", "val", "valid", "validation", "test")
_ALIASES = dict.fromkeys(("val", "valid", "validation"), "dev")


def label_of_folder(clip_id: str) -> str:
    """Return the folder that a clip lies in, where data has one for each label; else nothing."""
    return clip_id.rpartition("/")[0].rpartition("/")[2]


@dataclass(frozen=True)
class Clip:
    """One clip of a dataset, before anything is read from it.

    Args:
        clip_id: Unique within the split; the path below the dataset's root, `/` between the parts.
        path: A folder of frames, a video file, or a folder of loose pictures.
        kind: `frames` (one clip, its frames in order), `video`, or `pictures` (independent).
        split: `train`, `dev`, `test` or any other word; `all` where the source has no splits.
        num_frames: As far as it is known without decoding.
        end_seconds: Where to end (exclusive), None for the end of the video.
        label: The class or the gloss sequence, where the source has one.
        extra: Other columns of a list source, passed through.
        version: Changes when its files do. At a URI, another one when it is read is a failure.
    """

    clip_id: str
    path: str
    kind: Literal["frames", "video", "pictures"]
    split: str = "all"
    num_frames: int | None = None
    start_seconds: float = 0.0
    end_seconds: float | None = None
    label: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    @property
    def listed_fps(self) -> float | None:
        """Frames per second of a folder, where its list has a column `fps`; None elsewhere."""
        words = self.extra.get("fps", "") if self.kind == "frames" else ""
        try:
            fps = float(words)
        except ValueError:
            return None
        return fps if 0 < fps < math.inf else None


class PersonIds(NamedTuple):
    """The same number, from 1 on, for the same person in every frame of a clip."""

    first: IntArray  # (frames,), of the person whose points stand for the frame; 0 for nobody
    others: IntArray  # (people,), of the people beside them, in their order


class PeopleRows(NamedTuple):
    """Everybody of a clip, a row each: frame by frame, first who stands for the frame."""

    frames: IntArray  # (rows,), the frame of the clip each is in
    points: FloatArray  # (rows, keypoints, 3), as in `PoseClip`
    scores: FloatArray  # (rows, keypoints)
    world: FloatArray | None  # (rows, 75, 3); None where metres were not kept
    ids: IntArray  # (rows,), as in `PersonIds`; 0 where one person was looked for


@dataclass(frozen=True, eq=False)
class OtherPeople:
    """The people of some frames beside the one whose points stand for the frame."""

    counts: IntArray  # (frames,): how many others there are in each
    points: FloatArray  # (people, keypoints, 3): frame by frame, within one the largest first
    scores: FloatArray  # (people, keypoints)
    world: FloatArray | None = None  # (people, 75, 3); None where metres were not kept
    ids: PersonIds | None = None  # None where nobody has looked, see `PoseClip.person_ids`

    @cached_property
    def starts(self) -> IntArray:
        """`(frames + 1,)`: the people of frame i are rows `starts[i]:starts[i + 1]`."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])

    def as_skeleton(self, source_name: str, target_name: str) -> OtherPeople:
        """Return the same people in another layout, see `PoseClip.as_skeleton`."""
        points, scores = _as_layout(self.points, self.scores, source_name, target_name)
        return dataclasses.replace(self, points=points, scores=scores)

    def of_frames(self, start: int, stop: int) -> OtherPeople:
        """Return those of some frames that follow each other."""
        rows = slice(self.starts[start], self.starts[stop])
        world = None if self.world is None else self.world[rows]
        ids = self.ids and PersonIds(self.ids.first[start:stop], self.ids.others[rows])
        counts = self.counts[start:stop]
        return OtherPeople(counts, self.points[rows], self.scores[rows], world, ids)


def nobody_else(num_frames: int, num_points: int) -> OtherPeople:
    """Return the others of frames that have none."""
    points = np.zeros((0, num_points, 3), np.float32)
    return OtherPeople(np.zeros(num_frames, np.int64), points, points[..., 0])


def join_people(parts: Sequence[OtherPeople | None]) -> OtherPeople | None:
    """Return the others of frames behind each other; None where any part does not know them."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    ids = [part.ids for part in known if part.ids is not None]
    joined = None
    if len(ids) == len(known):
        joined = PersonIds(*(np.concatenate(columns) for columns in zip(*ids, strict=True)))
    return OtherPeople(
        np.concatenate([part.counts for part in known]),
        np.concatenate([part.points for part in known]),
        np.concatenate([part.scores for part in known]),
        join_world(known),
        joined,
    )


def join_world(parts: Sequence[OtherPeople | Keypoints | PoseClip]) -> FloatArray | None:
    """Return metres behind each other, NaN for parts that lack them; None where all do."""
    if all(part.world is None for part in parts):
        return None
    worlds = (nothing_in_metres(len(p.points)) if p.world is None else p.world for p in parts)
    return np.concatenate(list(worlds))


def nothing_in_metres(num_rows: int) -> FloatArray:
    """Return `(rows, 75, 3)` of points that were not found."""
    return np.full((num_rows, WORLD_LAYOUT.num_points, 3), np.nan, np.float32)


@dataclass(frozen=True, eq=False)
class Keypoints:
    """What an estimator says about a batch of frames.

    Args:
        points: `(frames, keypoints, 3)` float32: x and y normalised by width and height (may lie
            outside 0..1), z in the scale of x; NaN where a point was not found.
        scores: `(frames, keypoints)` float32 in 0..1: visibility or confidence, 0 where not found.
        sizes_wh: `(frames, 2)` int32: width and height of each frame in pixels.
        others: All people but the largest, whose points the three above are; None from an engine
            that looks for one person only.
        world: `(frames, 75, 3)` float32, as in `PoseClip`; None unless the engine was asked.
    """

    points: FloatArray
    scores: FloatArray
    sizes_wh: npt.NDArray[np.int32]
    others: OtherPeople | None = None
    world: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, eq=False)
class PoseClip:
    """The keypoints of one clip, of any skeleton. Arrays are checked, not copied: do not modify.

    Args:
        points: As in `Keypoints`, like `scores` and `sizes_wh`; z is 0 for a flat skeleton, a size
            0 where it is not known.
        skeleton_name: A name `posemill.skeletons.get_skeleton` knows.
        frame_indices: `(frames,)`: position of each row in its source; 0, 1, 2 … by default.
        image_paths: One per frame, or empty where the source was a video.
        normalized: `none`; `shoulders` or `bbox` for points that were centred and scaled: they
            have no place in the picture any more, and are not normalised again.
        fps: Rows of a second: of a video every second frame of which was taken, half of its own.
        interpolated: Gaps of up to this many frames were closed by straight lines.
        smoothed: `none`, or the filter that smoothed the points along time.
        run_folder: Of the run it was read from, which knows the pictures; empty for a clip of a
            file.
        others: The people beside the one whose points these are; None where one was looked for.
        world: `(frames, 75, 3)` float32 in metres, whatever the skeleton: 33 points of the body
            around the middle of the hips, then 21 of the left and 21 of the right hand, each
            around its wrist (`WORLD_LAYOUT` has their names); NaN where not found. x points to
            the right of the picture, y down, z away from the camera. None where it was not kept.
    """

    points: FloatArray
    scores: FloatArray
    sizes_wh: npt.NDArray[np.int32]
    skeleton_name: str = "holistic-543"
    clip_id: str = ""
    split: str = "all"
    frame_indices: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    image_paths: tuple[str, ...] = ()
    label: str | None = None
    fps: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    normalized: str = "none"
    interpolated: int = 0
    smoothed: str = "none"
    run_folder: str = ""
    others: OtherPeople | None = None
    world: FloatArray | None = None

    def __post_init__(self) -> None:
        frames, keypoints = len(self.points), self.skeleton.num_points
        if not len(self.frame_indices) and frames:
            object.__setattr__(self, "frame_indices", np.arange(frames, dtype=np.int64))
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
            "points": (self.points, (frames, keypoints, 3)),
            "scores": (self.scores, (frames, keypoints)),
            "sizes_wh": (self.sizes_wh, (frames, 2)),
            "frame_indices": (self.frame_indices, (frames,)),
            "world": (self.world, (frames, WORLD_LAYOUT.num_points, 3)),
        }
        if self.others is not None:
            people, ids = int(self.others.counts.sum()), self.others.ids
            shapes |= {
                "others.points": (self.others.points, (people, keypoints, 3)),
                "others.scores": (self.others.scores, (people, keypoints)),
                "others.counts": (self.others.counts, (frames,)),
                "others.ids.first": (ids and ids.first, (frames,)),
                "others.ids.others": (ids and ids.others, (people,)),
            }
        for name, (array, shape) in shapes.items():
            if array is not None and array.shape != shape:
                raise ValueError(
                    f"{name}: expected shape {shape} for {self.skeleton_name}, got {array.shape}"
                )
        if self.image_paths and len(self.image_paths) != frames:
            raise ValueError(f"image_paths: expected {frames} or none, got {len(self.image_paths)}")

    def __repr__(self) -> str:
        found = "no frames"
        if len(self):
            shares = zip(self.skeleton.part_names, self.present.mean(0), strict=True)
            found = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        return (
            f"PoseClip({self.clip_id!r}, split={self.split!r}, {self.skeleton_name}, "
            f"points={self.points.shape}, {found})"
        )

    def _repr_html_(self) -> str:
        # For notebooks. This module may not know who draws: found when it is asked for.
        return str(import_module("posemill.commands.pictures").clip_html(self))

    def __len__(self) -> int:
        return len(self.points)

    @property
    def skeleton(self) -> Skeleton:
        """The skeleton: names, parts, bones and left/right of the points."""
        return get_skeleton(self.skeleton_name)

    @cached_property
    def mask(self) -> BoolArray:
        """`(frames, keypoints)`: True where the point was found."""
        return ~np.isnan(self.points[..., 0])

    @cached_property
    def person_ids(self) -> PersonIds | None:
        """Who is who along the clip; None where one person was looked for.

        As stored, or as `posemill.tracker` finds by the points.
        """
        if self.others is None:
            return None
        if self.others.ids is not None:
            return self.others.ids
        from posemill.tracker import track_clip  # knows this module

        return PersonIds(*track_clip(self))

    def everybody(self) -> PeopleRows:
        """Return all people of all frames, a row each."""
        frames, ids = np.arange(len(self)), self.person_ids
        if self.others is None or ids is None:
            return PeopleRows(frames, self.points, self.scores, self.world, np.zeros_like(frames))
        frames = np.concatenate([frames, np.repeat(frames, self.others.counts)])
        order = np.argsort(frames, kind="stable")
        world = join_world([self, self.others])
        return PeopleRows(
            frames[order],
            np.concatenate([self.points, self.others.points])[order],
            np.concatenate([self.scores, self.others.scores])[order],
            None if world is None else world[order],
            np.concatenate(ids)[order],
        )

    @property
    def present(self) -> BoolArray:
        """`(frames, parts)`: True where any point of the part was found, parts as in `skeleton`."""
        mask = self.mask
        columns = [mask[:, part.start : part.stop].any(1) for part in self.skeleton.parts]
        return np.stack(columns, 1)

    def part(self, name: str) -> FloatArray:
        """Return `(frames, points of the part, 3)`, a view, NaN where not found."""
        part = self.skeleton.part(name)
        return self.points[:, part.start : part.stop]

    def pixels(self) -> FloatArray:
        """Return `(frames, keypoints, 2)`: x and y in pixels of the original frames."""
        return self.points[..., :2] * self.sizes_wh[:, None, :].astype(np.float32)

    def with_size(self, size_wh: tuple[int, int] | None) -> PoseClip:
        """Return the clip with this size, in pixels, for the frames whose own is not known."""
        unknown = np.asarray((self.sizes_wh <= 0).any(axis=1))
        if size_wh is None or not unknown.any():
            return self
        sizes = np.where(unknown[:, None], np.array(size_wh, np.int32), self.sizes_wh)
        return dataclasses.replace(self, sizes_wh=sizes.astype(np.int32))

    def as_skeleton(self, name: str) -> PoseClip:
        """Return the same clip in another layout, by the declared map between the two.

        A target point that is the mean of several (the neck) takes the lowest of their scores; one
        the source does not have (the small toes) is missing.
        """
        if name == self.skeleton_name:
            return self
        points, scores = _as_layout(self.points, self.scores, self.skeleton_name, name)
        others = self.others and self.others.as_skeleton(self.skeleton_name, name)
        return dataclasses.replace(
            self, points=points, scores=scores, skeleton_name=name, others=others
        )

    def to_pandas(self, *, wide: bool = False) -> Any:
        """Return a pandas DataFrame: a row for each point of each frame, x, y, z and score in it.

        Args:
            wide: A row for each frame instead, with columns `nose_x`, `nose_y`, `nose_z`,
                `nose_score` and so on.
        """
        pandas = import_optional("pandas")
        names, frames = self.skeleton.point_names, len(self)
        values, axes = np.dstack([self.points, self.scores]), ("x", "y", "z", "score")
        if wide:
            columns = [f"{name}_{axis}" for name in names for axis in axes]
            index = pandas.Index(self.frame_indices, name="frame_index")
            return pandas.DataFrame(values.reshape(frames, -1), index=index, columns=columns)
        parts = [part.name for part in self.skeleton.parts for _ in range(len(part))]
        table = pandas.DataFrame(values.reshape(-1, len(axes)), columns=axes)
        table.insert(0, "point", np.tile(names, frames))
        table.insert(0, "part", np.tile(parts, frames))
        table.insert(0, "frame_index", np.repeat(self.frame_indices, len(names)))
        return table

    def plot(self, index: int | None = None, *, originals: PathLike[str] | str = "") -> Frame:
        """Return a picture, RGB, of one frame with its keypoints; see `posemill.plot`."""
        import posemill  # this module may not know who draws; the front door does

        return posemill.plot(self, index, originals=originals or None)

    def show(
        self,
        index: int | None = None,
        *,
        path: PathLike[str] | str = "",
        originals: PathLike[str] | str = "",
    ) -> None:
        """Show what `plot` gives, or write it as a PNG; see `posemill.show`."""
        import posemill

        posemill.show(self, index, path=path or None, originals=originals or None)


def fields_of_recipe(recipe: Any) -> dict[str, Any]:
    """Return the fields of a `PoseClip` that a recorded recipe decides; none of None.

    ValueError where it is no recipe, or of a posemill that knows more than this one.
    """
    if recipe is None:
        return {}
    if not isinstance(recipe, Mapping):
        raise ValueError(f"expected an object as recipe, got {type(recipe).__name__}")
    interpolated = recipe.get("interpolate", 0)
    if not isinstance(interpolated, int) or interpolated < 0:
        raise ValueError(f"interpolate: expected 0 or more frames, got {interpolated!r:.80}")
    fields = {"interpolated": interpolated}
    choices = {"normalized": ("normalize", NORMALIZATIONS), "smoothed": ("smooth", SMOOTHINGS)}
    for field_name, (name, known) in choices.items():
        fields[field_name] = value = recipe.get(name, "none")
        if value not in known:
            raise ValueError(f"unknown {name} {str(value)[:80]!r}; known: {', '.join(known)}")
    return fields


def _as_layout(
    points: FloatArray, scores: FloatArray, source_name: str, target_name: str
) -> tuple[FloatArray, FloatArray]:
    """Return `(rows, keypoints, 3)` and their scores in another layout."""
    # Nearly all points are plain copies: all in one go, then the few others.
    first, others = _copies_and_others(source_name, target_name)
    new_points = np.take(points, first, axis=1)
    new_scores = np.take(scores, first, axis=1)
    for target, chosen in others.items():
        new_points[:, target] = points[:, chosen].mean(1) if chosen else np.nan
        new_scores[:, target] = scores[:, chosen].min(1) if chosen else 0
    new_scores[np.isnan(new_points[..., 0])] = 0
    return new_points, new_scores


@cache
def _copies_and_others(source_name: str, target_name: str) -> tuple[IntArray, dict[int, list[int]]]:
    """Return a source point for every target, and the targets that are not a copy of one."""
    sources = point_map(source_name, target_name)
    first = np.array([indices[0] if indices else 0 for indices in sources], np.int64)
    return first, {i: list(each) for i, each in enumerate(sources) if len(each) != 1}


def usual_split(name: str) -> str:
    """Return `dev` for val, valid and validation, in any case; a name of no usual split stays."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower) if lower in SPLIT_NAMES else name


def match_splits(wanted: Iterable[str], there: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the splits of `there` that are asked for, and the names that none of them has.

    A name means the split that is called so, and where there is none, those it is an alias of.
    """
    known, matched, missing = list(there), list[str](), list[str]()
    for name in wanted:
        same = [split for split in known if split == name]
        same = same or [split for split in known if usual_split(split) == usual_split(name)]
        matched += same
        missing += [] if same else [name]
    return list(dict.fromkeys(matched)), missing


def sort_splits(names: Iterable[str]) -> list[str]:
    """Return split names in their usual order: train, dev and its other names, test, others."""
    known = [name for name in SPLIT_NAMES if name in set(names)]
    return known + sorted(set(names) - set(known))
