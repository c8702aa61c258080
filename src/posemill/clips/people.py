"""Clips that show several people: one of them, followed along the clip, or each in their turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from posemill.errors import ConfigError
from posemill.records import BoolArray, IntArray, PeopleRows, PoseClip, nothing_in_metres


def parse_person(text: str | int) -> str | int:
    """Return `main`, `all` or the number of a person, from 1 on."""
    word = str(text).strip().lower()
    if word in ("main", "all"):
        return word
    if word.isascii() and word.isdecimal() and int(word) > 0:
        return int(word)
    template = "{--person}: expected main, all, or a number from 1 on, got {text!r}"
    raise ConfigError(template, text=text)


def choose_person(clip: PoseClip, person: str | int) -> PoseClip:
    """Return the clip of one person, or of all.

    People are followed by their ids, and numbered by the area they have in all frames together:
    `main` is number 1. A frame in which the chosen one was not found has no points then. In
    pictures that stand alone people are numbered in each by their area.
    """
    if clip.others is None or person == "all":
        return clip
    number = 1 if person == "main" else int(person)
    if not len(clip.others.points) and number == 1:
        return dataclasses.replace(clip, others=None)
    people = clip.everybody()
    return _alone(clip, people, _ranks_of(people) == number)


def _alone(clip: PoseClip, people: PeopleRows, is_chosen: BoolArray) -> PoseClip:
    """Return the clip of some of its people, at most one of each frame."""
    frames = people.frames[is_chosen]
    points, scores = np.full_like(clip.points, np.nan), np.zeros_like(clip.scores)
    points[frames], scores[frames] = people.points[is_chosen], people.scores[is_chosen]
    world = None
    if people.world is not None:
        world = nothing_in_metres(len(clip))
        world[frames] = people.world[is_chosen]
    return dataclasses.replace(clip, points=points, scores=scores, others=None, world=world)


def change_each_person(clip: PoseClip, change: Callable[[PoseClip], PoseClip]) -> PoseClip:
    """Return the clip with the points and scores of each person changed.

    People are told apart by their ids; in pictures that stand alone the largest of each come
    first, then the next largest. Who is not in a frame has no points there; what `change` puts
    there is left out: nobody is added to a frame.
    """
    ids = clip.person_ids
    if clip.others is None or ids is None:
        return change(clip)
    rows = clip.everybody()
    points, scores, numbers = rows.points.copy(), rows.scores.copy(), rows.ids
    is_first = np.diff(rows.frames, prepend=-1) > 0
    if not numbers.any():
        numbers = np.arange(len(numbers)) - np.flatnonzero(is_first)[rows.frames] + 1
    for number in np.unique(numbers[numbers > 0]):
        is_chosen = numbers == number
        changed, frames = change(_alone(clip, rows, is_chosen)), rows.frames[is_chosen]
        points[is_chosen], scores[is_chosen] = changed.points[frames], changed.scores[frames]
    others = dataclasses.replace(
        clip.others, points=points[~is_first], scores=scores[~is_first], ids=ids
    )
    return dataclasses.replace(
        clip, points=points[is_first], scores=scores[is_first], others=others
    )


def _ranks_of(people: PeopleRows) -> IntArray:
    """Return `(rows,)`: 1 for the largest person, 2 for the next and so on; 0 for nobody."""
    ranks = np.zeros(len(people.points), np.int64)
    rows = np.nonzero(~np.isnan(people.points[..., 0]).all(axis=1))[0]
    places = people.points[rows, :, :2]
    areas = (np.nanmax(places, axis=1) - np.nanmin(places, axis=1)).prod(axis=1)
    if people.ids.any():
        totals = np.bincount(people.ids[rows], weights=areas)
        rank_of_id = np.empty(len(totals), np.int64)
        rank_of_id[np.argsort(-totals, kind="stable")] = np.arange(len(totals)) + 1
        ranks[rows] = rank_of_id[people.ids[rows]]
        return ranks
    frames = people.frames[rows]
    order = np.lexsort((-areas, frames))
    ranks[rows[order]] = np.arange(len(order)) - np.searchsorted(frames, frames[order]) + 1
    return ranks
