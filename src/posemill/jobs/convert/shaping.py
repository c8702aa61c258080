"""A clip on its way into a file: layout, short gaps closed, smoothed, normalised."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from posemill.blocks import ClipBlock, join_clips
from posemill.clips.inputs import ClipInput
from posemill.clips.people import change_each_person
from posemill.clips.smoothing import smooth
from posemill.errors import ConfigError
from posemill.formats import FORMATS, get_format
from posemill.formats.shared.contract import ANY, Format, Recipe
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

# What Holistic finds, all of it.
_ALL_POINTS = ("holistic-543", "holistic-553")


def check_recipe(
    source: ClipInput, recipe: Recipe | None, form: Format, *, has_room: bool = False
) -> Recipe:
    """Return the recipe with the format's usual fill.

    Args:
        source: A run or a file.
        recipe: What is done to its clips.
        form: What they become.
        has_room: Whether all people of a frame have a place of their own.

    Raises:
        ConfigError: The format cannot hold what the recipe makes of the source.
    """
    recipe = _check_format(recipe or Recipe(), form)
    _expect_order(source, recipe)
    if not has_room:
        _expect_room_for_people(source, form)
    return recipe


def _check_format(recipe: Recipe, form: Format) -> Recipe:
    if recipe.layout and not form.holds(recipe.layout):
        raise ConfigError(
            "{name} holds {layouts}, not {layout}: choose another {--skeleton} or format",
            name=form.name,
            layouts=" or ".join(form.layouts),
            layout=recipe.layout,
        )
    if recipe.normalize != "none" and form.has_pixels:
        raise ConfigError(
            "{name} holds pixels of the picture, {--normalize:{normalize}} takes them away: "
            "leave it out, or choose {formats}",
            name=form.name,
            normalize=recipe.normalize,
            formats=", ".join(_formats_without_pixels()),
        )
    if recipe.fill is not None and not form.has_mask:
        raise ConfigError(
            "{name} has its own mark for missing points; leave out {--fill:{fill}}",
            name=form.name,
            fill=recipe.fill,
        )
    if recipe.replace and not getattr(form, "mirrors", False):
        raise ConfigError(
            "{name} has no folders of its source, which {--replace} renames: leave it out, "
            "or choose txt or openpose",
            name=form.name,
        )
    if form.has_mask and recipe.fill is None:
        return dataclasses.replace(recipe, fill="zero")
    return recipe


def _formats_without_pixels() -> list[str]:
    return [name for name in FORMATS if not get_format(name).has_pixels]


def _expect_order(source: ClipInput, recipe: Recipe) -> None:
    """Raise if lines would be drawn between pictures that have nothing to do with each other."""
    draws_lines = {
        "interpolate": recipe.interpolate > 0,
        "fill": recipe.fill == "interpolate",
        "smooth": recipe.smooth != "none",
    }
    for name, is_chosen in draws_lines.items():
        if is_chosen and source.has_loose_pictures:
            raise ConfigError(
                "{path} holds loose pictures, which do not follow each other in time: leave out "
                "{option}, or take a run without them",
                path=source.path,
                option=Option(name, getattr(recipe, name)),
            )


def dropped_points(source_name: str, target_name: str) -> str:
    """Return which points of a skeleton another one has no use for, in words; empty for none."""
    if source_name == target_name:
        return ""
    used = {index for indices in point_map(source_name, target_name) for index in indices}
    lost = []
    for part in get_skeleton(source_name).parts:
        num_lost = len(part) - len(used.intersection(range(part.start, part.stop)))
        if num_lost:
            lost.append(
                Message(
                    "{num_lost} of {num_points} points of {part}",
                    num_lost=num_lost,
                    num_points=len(part),
                    part=part_label(part.name),
                )
            )
    if not lost:
        return ""
    return Message(
        "{points} ({source} as {target})",
        points=join("; ", lost),
        source=source_name,
        target=target_name,
    )


def recorded(recipe: Recipe, source: ClipInput) -> Recipe:
    """Return the recipe as it is written into files: with how the keypoints of a run were found."""
    recipe = dataclasses.replace(recipe, has_people=source.has_people)
    if source.run is None:
        return recipe
    return dataclasses.replace(
        recipe, extraction=source.run.manifest.extraction, root=source.pictures_root
    )


def layout_for(skeleton_name: str, recipe: Recipe, form: Format) -> str:
    """Return the skeleton clips of one are written in: the recipe's, else the format's usual one.

    A clip that is already in a layout of the format keeps it, but for all the points of Holistic
    in formats whose usual layout is smaller.
    """
    if recipe.layout:
        return recipe.layout
    usual = form.layouts[0]
    if form.holds(skeleton_name) and (skeleton_name not in _ALL_POINTS or usual in _ALL_POINTS):
        return skeleton_name
    return _smallest_as_full(skeleton_name, form)


def _smallest_as_full(skeleton_name: str, form: Format) -> str:
    """Return the format's usual layout, or a smaller one that takes as many points of a skeleton.

    So 18 points become the 17 of COCO, and not 133 of which 116 are missing.
    """
    usual = form.layouts[0]
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
    most = taken.get(usual, 0)
    fitting = [name for name, count in taken.items() if count >= most]
    return min(fitting, key=lambda name: get_skeleton(name).num_points, default=usual)


def _expect_room_for_people(source: ClipInput, form: Format) -> None:
    """Raise if all people are wanted in a format that holds one."""
    if source.person == "all" and not getattr(form, "holds_people", False):
        names = [name for name in FORMATS if getattr(get_format(name), "holds_people", False)]
        raise ConfigError(
            "{name} holds one person in a frame: choose {--person:main} or a number, or one "
            "of {names}",
            name=form.name,
            names=", ".join(names),
        )


def layout_of_run(source: ClipInput, recipe: Recipe, form: Format) -> str | None:
    """Return the skeleton the clips of a run are written in; None for a file, they may differ."""
    return None if source.run is None else layout_for(source.run.skeleton_name, recipe, form)


def shape_clip(clip: PoseClip, recipe: Recipe, layout: str) -> PoseClip:
    """Return the clip as the recipe wants it.

    Raises:
        ConfigError: It cannot have that layout, was normalised before, or lacks picture sizes.
    """
    try:
        clip = clip.as_skeleton(layout)
    except ValueError as error:
        raise _cannot_be(clip, error) from error
    if recipe.interpolate:
        clip = change_each_person(clip, partial(_close_gaps, max_gap=recipe.interpolate))
    if recipe.smooth != "none":
        clip = _smooth(clip, recipe.smooth)
    if recipe.normalize != "none":
        clip = _normalize(clip, recipe.normalize)
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
    points, new = interpolate_gaps(clip.points, max_gap, frame_indices=clip.frame_indices)
    if not new.any():
        return clip
    # A closed gap is as sure as its ends: scores follow the same lines.
    known = np.where(clip.mask, clip.scores, np.float32(np.nan))[..., None]
    scores, _ = interpolate_gaps(known, max_gap, frame_indices=clip.frame_indices)
    return dataclasses.replace(clip, points=points, scores=np.nan_to_num(scores[..., 0]))


def _smooth(clip: PoseClip, method: str) -> PoseClip:
    if clip.smoothed != "none":
        raise ConfigError(
            "clip {clip_id!r} was smoothed by {smoothed!r} before; leave out "
            "{--smooth:{method}}, or take the run it was made of",
            clip_id=clip.clip_id,
            smoothed=clip.smoothed,
            method=method,
        )
    return smooth(clip, method)


def _normalize(clip: PoseClip, how: str) -> PoseClip:
    if clip.normalized != "none":
        raise ConfigError(
            "clip {clip_id!r} was normalised by {normalized!r} before; leave out "
            "{--normalize:{how}}, or take the run it was made of",
            clip_id=clip.clip_id,
            normalized=clip.normalized,
            how=how,
        )
    if not (clip.sizes_wh > 0).all():
        # Shares of width and height are lengths only where the picture's shape is known.
        raise ConfigError(
            "clip {clip_id!r}: {--normalize:{how}} needs the size of the pictures, which is "
            "not known; give it by {--size:WIDTHxHEIGHT}",
            clip_id=clip.clip_id,
            how=how,
        )
    return change_each_person(clip, partial(_normalize_person, how=how))


def _normalize_person(clip: PoseClip, how: str) -> PoseClip:
    square = to_square_units(clip.points, clip.sizes_wh)
    if how == "shoulders":
        points = normalize_by_shoulders(square, shoulders_of(clip.skeleton))
    else:
        points = normalize_by_bbox(square)
    scores = np.where(np.isnan(points[..., 0]), np.float32(0), clip.scores)
    return dataclasses.replace(clip, points=points, scores=scores)
