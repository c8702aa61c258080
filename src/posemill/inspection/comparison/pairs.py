"""The clips that two inputs have both, side by side, one pair in memory at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from posemill.clips.inputs import ClipInput, ClipName
from posemill.errors import ConfigError, PosemillError
from posemill.records import BoolArray, IntArray, PoseClip, usual_split
from posemill.skeletons import SKELETON_NAMES, point_map


def match_key(split: str, clip_id: str) -> ClipName:
    """Return what clips of two inputs are matched by: `val` is `dev`."""
    return usual_split(split), clip_id


class Side:
    """The clips of one input, by their `match_key`; `names` are as the input spells them.

    Of a run they come out of its records, a file is read once for them.
    """

    def __init__(self, material: ClipInput) -> None:
        self.material = material
        self.names: dict[ClipName, ClipName] = {}
        self.num_frames: dict[ClipName, int] = {}
        skeletons: dict[str, None] = {}
        for outline in material.outlines():
            key = match_key(outline.split, outline.clip_id)
            self.names[key] = outline.split, outline.clip_id
            self.num_frames[key] = outline.num_frames
            skeletons[outline.skeleton_name] = None
            if outline.normalized != "none":
                raise PosemillError(
                    "{path}: its keypoints were normalised by {normalized} and have no place in "
                    "the pictures any more; compare the runs they were made of",
                    path=material.path,
                    normalized=outline.normalized,
                )
        if len(skeletons) != 1:
            template = "{path}: expected clips of one skeleton, got {skeletons}"
            shown = ", ".join(skeletons) or "no clips"
            raise PosemillError(template, path=material.path, skeletons=shown)
        (self.skeleton_name,) = skeletons


class Pairing:
    """Two inputs, and the layout they are compared in: by default the one with most points.

    Distances are in pixels of the pictures of the first. `is_shared` is `(keypoints,)`: which
    points of the layout both can have.
    """

    def __init__(self, one: ClipInput, other: ClipInput, layout: str | None = None) -> None:
        self.sides = Side(one), Side(other)
        names = [side.skeleton_name for side in self.sides]
        self.layout, self.is_shared = choose_layout(names[0], names[1], layout)
        if not self.common:
            shown = [", ".join(map("/".join, list(side.names.values())[:2])) for side in self.sides]
            raise PosemillError(
                "{path} and {other_path} have no clip in common: {clips} … are not {other_clips} "
                "…; expected two runs of the same clips",
                path=one.path,
                other_path=other.path,
                clips=shown[0],
                other_clips=shown[1],
            )

    @property
    def common(self) -> list[ClipName]:
        """The clips in both, in the order of the first."""
        first, second = self.sides
        return [key for key in first.names if key in second.names]

    def only(self, number: int) -> list[ClipName]:
        """Return the clips that the side of this number has and the other has not."""
        others = self.sides[1 - number].names
        return [name for key, name in self.sides[number].names.items() if key not in others]

    def clips(self) -> Iterator[tuple[PoseClip, PoseClip]]:
        """Yield the clips of both, in the layout, in the order of the first input.

        Memory stays flat, but for a file whose clips are in another order: it is read whole.
        """
        common = self.common
        keys = set(common)
        first, second = self.sides
        if common == [key for key in second.names if key in keys]:
            others = self._stream(second, keys)
        elif second.material.run is not None:
            names = (second.names[key] for key in common)
            others = (clip.as_skeleton(self.layout) for clip in second.material.pick(names))
        else:
            clips = self._stream(second, keys)
            read = {match_key(clip.split, clip.clip_id): clip for clip in clips}
            others = (read.pop(key) for key in common)
        yield from zip(self._stream(first, keys), others, strict=True)

    def _stream(self, side: Side, keys: set[ClipName]) -> Iterator[PoseClip]:
        for clip in side.material.clips_so_far(layout=self.layout):
            if match_key(clip.split, clip.clip_id) in keys:
                yield clip.as_skeleton(self.layout)


def cut_clip(clip: PoseClip, start: int, stop: int) -> PoseClip:
    """Return some frames of a clip, copied: the whole one need not stay in memory."""
    stop = min(stop, len(clip))
    names = ("points", "scores", "sizes_wh", "frame_indices")
    return dataclasses.replace(
        clip,
        **{name: getattr(clip, name)[start:stop].copy() for name in names},
        image_paths=clip.image_paths[start:stop],
        others=clip.others and clip.others.of_frames(start, stop),
        world=None,
    )


def choose_layout(one: str, other: str, wanted: str | None = None) -> tuple[str, BoolArray]:
    """Return the skeleton two others are compared in, and which of its points both can have.

    One of the two where the other can be turned into it, else any that both can. Of several the one
    with most points that need not be made of others, as a neck is of shoulders; then the smallest.
    """
    for names in ([wanted],) if wanted else ([one, other], SKELETON_NAMES):
        sources = {name: _sources(one, other, name) for name in names}
        best = max(names, key=lambda name: ((sources[name] == 1).sum(), -len(sources[name])))
        if sources[best].any():
            return best, sources[best] > 0
    as_what = f"as {wanted}" if wanted else "in any skeleton"
    template = "{one} and {other} have no points to be compared {as_what}"
    raise ConfigError(template, one=one, other=other, as_what=as_what)


def _sources(one: str, other: str, layout: str) -> IntArray:
    """Return for each point of a layout of how many it is made; 0 where one side has it not."""
    try:
        sides = [
            np.array([1 if name == layout else len(each) for each in point_map(name, layout)])
            for name in (one, other)
        ]
    except ValueError:  # no map
        return np.zeros(0, np.int64)
    return np.where((sides[0] > 0) & (sides[1] > 0), np.maximum(*sides), 0)
