"""A clip on its way into a file: layout, short gaps closed, smoothed, normalised."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from posemill.blocks import ClipBlock, join_clips
from posemill.clips.inputs import ClipInput
from posemill.clips.people import change_each_person
from posemill.clips.smoothing import smooth
from posemill.errors import ConfigError
from posemill.formats import FORMATS, get_format
from posemill.formats.shared.contract import ANY, Format, Recipe, Summary
from posemill.geometry import (
    interpolate_gaps,
    normalize_by_bbox,
    normalize_by_shoulders,
    shoulders_of,
    to_square_units,
)
from posemill.messages import Message, Option, join
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton, point_map
from posemill.skeletons.palette import part_label

_ALL_POINTS = ("holistic-543", "holistic-553")  # what Holistic finds, all of it
Item = TypeVar("Item", PoseClip, ClipBlock)


class Shaping:
    """The clips of a source on their way into a format, or into a run.

    What the format (None: a run, which holds any skeleton) cannot hold of what the recipe makes is
    a ConfigError. `has_room`: all people of a frame have a place of their own.
    """

    def __init__(
        self, source: ClipInput, recipe: Recipe, form: Format | None, *, has_room: bool = False
    ) -> None:
        self._source, self._form = source, form
        self.dropped: dict[str, None] = {}  # which points are left out, in words
        if form is not None:
            recipe = _check_recipe(recipe, form, source, has_room=has_room)
            recipe = dataclasses.replace(recipe, has_people=source.has_people)
            if source.run is not None:
                found_by, root = source.run.manifest.extraction, source.pictures_root
                recipe = dataclasses.replace(recipe, extraction=found_by, root=root)
        # As it is written into files; and with what was done to the clips before.
        self.recipe = self.whole = recipe

    @property
    def layout(self) -> str | None:
        """The skeleton that all clips are written in; None for those of a file, who may differ."""
        if self._form is None or self._source.run is None:
            return None
        return layout_for(self._source.run.skeleton_name, self.recipe, self._form)

    def shape(self, clips: Iterator[Item]) -> Iterator[Item]:
        """Yield the clips of the source, or blocks of them, as the recipe wants them."""
        for clip in clips:
            frames = clip.frames if isinstance(clip, ClipBlock) else clip
            skeleton_name = self._source.skeleton_of(frames)
            layout = layout_for(skeleton_name, self.recipe, self._form)
            if isinstance(clip, ClipBlock):
                shaped = shape_block(clip, self.recipe, layout)
            else:
                shaped = shape_clip(clip, self.recipe, layout)
                self.whole = self.whole.after(shaped)
            if words := dropped_points(skeleton_name, layout):
                self.dropped[words] = None
            yield shaped

    def note(self, summary: Summary) -> None:
        """Add to a summary what is lost and what was done, now and before."""
        summary.losses = (*summary.losses, *self.dropped)
        summary.recipe = self.whole.to_dict()
        mirrors = self._form is not None and self._form.mirrors
        if mirrors and (num_failed := sum(self._source.num_failed().values())):
            without_file = Message(
                "{num_failed:picture has|pictures have} no file, as no keypoints came of them "
                "(posemill status {run!q} --failures)",
                num_failed=num_failed,
                run=self._source.name,
            )
            summary.losses = (*summary.losses, without_file)


def _check_recipe(recipe: Recipe, form: Format, source: ClipInput, *, has_room: bool) -> Recipe:
    """Return the recipe with the format's usual fill; raise where it cannot hold the result."""
    draws_lines = {
        "interpolate": recipe.interpolate > 0,
        "fill": recipe.fill == "interpolate",
        "smooth": recipe.smooth != "none",
    }
    drawn_by = next((name for name, is_chosen in draws_lines.items() if is_chosen), "")
    faults = {
        "{name} holds {layouts}, not {layout}: choose another {--skeleton} or format": not (
            form.holds(recipe.layout or form.layouts[0])
        ),
        "{name} holds pixels of the picture, {--normalize:{normalize}} takes them away: leave it "
        "out, or choose {with_shares}": form.has_pixels and recipe.normalize != "none",
        "{name} has its own mark for missing points; leave out {--fill:{fill}}": not form.has_mask
        and recipe.fill is not None,
        "{name} has no folders of its source, which {--replace} renames: leave it out, or choose "
        "txt or openpose": not form.mirrors and bool(recipe.replace),
        "{name} holds one person in a frame: choose {--person:main} or a number, or one of "
        "{with_people}": not form.holds_people and source.person == "all" and not has_room,
        "{path} holds loose pictures, which do not follow each other in time: leave out {option}, "
        "or take a run without them": bool(drawn_by) and source.has_loose_pictures,
    }
    for template, is_fault in faults.items():
        if is_fault:
            raise ConfigError(
                template,
                **vars(recipe),
                name=form.name,
                layouts=" or ".join(form.layouts),
                path=source.path,
                option=Option(drawn_by, getattr(recipe, drawn_by, "")),
                with_shares=", ".join(name for name in FORMATS if not get_format(name).has_pixels),
                with_people=", ".join(name for name in FORMATS if get_format(name).holds_people),
            )
    if form.has_mask and recipe.fill is None:
        return dataclasses.replace(recipe, fill="zero")
    return recipe


def dropped_points(source_name: str, target_name: str) -> str:
    """Return which points of a skeleton another one has no use for, in words; empty for none."""
    if source_name == target_name:
        return ""
    used = {index for indices in point_map(source_name, target_name) for index in indices}
    lost = []
    for part in get_skeleton(source_name).parts:
        if num_lost := len({*range(part.start, part.stop)} - used):
            template, name = "{num_lost} of {num_points} points of {part}", part_label(part.name)
            lost.append(Message(template, num_lost=num_lost, num_points=len(part), part=name))
    if not lost:
        return ""
    template, points = "{points} ({source} as {target})", join("; ", lost)
    return Message(template, points=points, source=source_name, target=target_name)


def layout_for(skeleton_name: str, recipe: Recipe, form: Format | None) -> str:
    """Return the skeleton clips of one are written in: the recipe's, else the format's usual one.

    A run, None, takes them as they are. A clip in a layout of the format keeps it, but for all the
    points of Holistic in formats whose usual layout is smaller. Where a smaller layout than the
    usual one takes as many points, it is that: so 18 points become the 17 of COCO, and not 133.
    """
    if recipe.layout or form is None:
        return recipe.layout or skeleton_name
    usual = form.layouts[0]
    if form.holds(skeleton_name) and (skeleton_name not in _ALL_POINTS or usual in _ALL_POINTS):
        return skeleton_name
    if usual == ANY or get_skeleton(skeleton_name).num_points >= get_skeleton(usual).num_points:
        return usual
    try:
        taken = {
            name: sum(map(bool, point_map(skeleton_name, name)))
            for name in form.layouts
            if name not in (ANY, *_ALL_POINTS)
        }
    except ValueError:
        return usual
    fitting = [name for name, count in taken.items() if count >= taken.get(usual, 0)]
    return min(fitting, key=lambda name: get_skeleton(name).num_points, default=usual)


def shape_clip(clip: PoseClip, recipe: Recipe, layout: str) -> PoseClip:
    """Return the clip as the recipe wants it, or say why it cannot be so."""
    try:
        clip = clip.as_skeleton(layout)
    except ValueError as error:
        raise _cannot_be(clip, error) from error
    if recipe.interpolate:
        clip = change_each_person(clip, partial(_close_gaps, max_gap=recipe.interpolate))
    if recipe.smooth != "none":
        _expect_untouched(clip, "smooth", clip.smoothed, recipe.smooth)
        clip = smooth(clip, recipe.smooth)
    if recipe.normalize != "none":
        _expect_untouched(clip, "normalize", clip.normalized, recipe.normalize)
        if not (clip.sizes_wh > 0).all():
            # Shares of width and height are lengths only where the picture's shape is known.
            raise ConfigError(
                "clip {clip_id!r}: {--normalize:{how}} needs the size of the pictures, which is "
                "not known; give it by {--size:WIDTHxHEIGHT}",
                clip_id=clip.clip_id,
                how=recipe.normalize,
            )
        clip = change_each_person(clip, partial(_normalize_person, how=recipe.normalize))
    made = recipe.after(clip)
    if (made.normalize, made.interpolate) == (clip.normalized, clip.interpolated):
        return clip
    return dataclasses.replace(clip, normalized=made.normalize, interpolated=made.interpolate)


def shape_block(block: ClipBlock, recipe: Recipe, layout: str) -> ClipBlock:
    """Return the clips of a block, and those beside them, as the recipe wants them."""
    beside = tuple(shape_block(people, recipe, layout) for people in block.beside)
    if recipe.interpolate or recipe.normalize != "none" or recipe.smooth != "none":
        # These look at whole clips, so each has its turn.
        shaped = join_clips([shape_clip(clip, recipe, layout) for clip in block.clips])
        return dataclasses.replace(shaped, beside=beside)
    try:
        return dataclasses.replace(block.as_skeleton(layout), beside=beside)
    except ValueError as error:
        raise _cannot_be(block.frames, error) from error


def _cannot_be(clip: PoseClip, error: ValueError) -> ConfigError:
    return ConfigError(
        "clip {clip_id!r}: {error}; choose another {--skeleton}", clip_id=clip.clip_id, error=error
    )


def _close_gaps(clip: PoseClip, max_gap: int) -> PoseClip:
    points, new = interpolate_gaps(clip.points, max_gap, clip.frame_indices)
    if not new.any():
        return clip
    # A closed gap is as sure as its ends: scores follow the same lines.
    known = np.where(clip.mask, clip.scores, np.float32(np.nan))[..., None]
    scores, _ = interpolate_gaps(known, max_gap, clip.frame_indices)
    return dataclasses.replace(clip, points=points, scores=np.nan_to_num(scores[..., 0]))


def _expect_untouched(clip: PoseClip, option: str, before: str, now: str) -> None:
    if before != "none":
        raise ConfigError(
            "clip {clip_id!r} was made with {before} already; leave out {option}, or take the run "
            "it was made of",
            clip_id=clip.clip_id,
            before=Option(option, before),
            option=Option(option, now),
        )


def _normalize_person(clip: PoseClip, how: str) -> PoseClip:
    square = to_square_units(clip.points, clip.sizes_wh)
    if how == "shoulders":
        points = normalize_by_shoulders(square, shoulders_of(clip.skeleton))
    else:
        points = normalize_by_bbox(square)
    scores = np.where(np.isnan(points[..., 0]), np.float32(0), clip.scores)
    return dataclasses.replace(clip, points=points, scores=scores)
