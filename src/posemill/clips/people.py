"""One person out of clips that show several: the largest, followed along the clip."""

from __future__ import annotations

import dataclasses

import numpy as np

from posemill.errors import ConfigError
from posemill.records import FloatArray, IntArray, PoseClip, join_world, nothing_in_metres


def parse_person(text: str | int) -> str | int:
    """Return `main`, `all` or the number of a person, from 1 on."""
    word = str(text).strip().lower()
    if word in ("main", "all"):
        return word
    if word.isascii() and word.isdecimal() and int(word) > 0:
        return int(word)
    raise ConfigError(
        "{--person}: expected main, all, or a number from 1 on, got {text!r}", text=text
    )


def choose_person(clip: PoseClip, person: str | int) -> PoseClip:
    """Return the clip of one person, or of all.

    People are followed by their ids, and numbered by the area they have in all frames together:
    `main` is number 1. A frame in which the chosen one was not found has no points then. In
    pictures that stand alone people are numbered in each by their area.

    Args:
        clip: With `others`; any other is returned as it is.
        person: As `parse_person` gives it; with `all` the clip stays as it is.
    """
    others = clip.others
    if others is None or person == "all":
        return clip
    number = 1 if person == "main" else int(person)
    if not len(others.points) and number == 1:
        return dataclasses.replace(clip, others=None)
    frames = np.arange(len(clip))
    frames = np.concatenate([frames, np.repeat(frames, others.counts)])
    points = np.concatenate([clip.points, others.points])
    scores = np.concatenate([clip.scores, others.scores])
    rows = np.nonzero(_ranks_of(clip, points, frames) == number)[0]
    chosen_points = np.full_like(clip.points, np.nan)
    chosen_scores = np.zeros_like(clip.scores)
    chosen_points[frames[rows]] = points[rows]
    chosen_scores[frames[rows]] = scores[rows]
    world = join_world([clip, others])
    if world is not None:
        chosen_world = nothing_in_metres(len(clip))
        chosen_world[frames[rows]] = world[rows]
        world = chosen_world
    return dataclasses.replace(
        clip, points=chosen_points, scores=chosen_scores, others=None, world=world
    )


def _ranks_of(clip: PoseClip, points: FloatArray, frames: IntArray) -> IntArray:
    """Return `(people,)`: 1 for the largest person, 2 for the next and so on; 0 for nobody.

    Args:
        clip: With `others`.
        points: `(people, keypoints, 3)` of everybody.
        frames: `(people,)`: the frame each is in.
    """
    assert clip.person_ids is not None
    ids = np.concatenate(clip.person_ids)
    ranks = np.zeros(len(points), np.int64)
    rows = np.nonzero(~np.isnan(points[..., 0]).all(axis=1))[0]
    places = points[rows, :, :2]
    areas = (np.nanmax(places, axis=1) - np.nanmin(places, axis=1)).prod(axis=1)
    if ids.any():
        totals = np.bincount(ids[rows], weights=areas)
        rank_of_id = np.empty(len(totals), np.int64)
        rank_of_id[np.argsort(-totals, kind="stable")] = np.arange(len(totals)) + 1
        ranks[rows] = rank_of_id[ids[rows]]
        return ranks
    order = np.lexsort((-areas, frames[rows]))
    starts = np.searchsorted(frames[rows][order], frames[rows][order])
    ranks[rows[order]] = np.arange(len(order)) - starts + 1
    return ranks
