"""Quality measured on clips whose faults are known because they were made."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_up_people import make_person

from posemill.inspection.quality import (
    _judge,
    longest_run,
    measure,
    squeeze,
)
from posemill.skeletons import SKELETON_NAMES


def change(clip, points, **fields):
    return dataclasses.replace(clip, points=points.astype(np.float32), **fields)


def part_of(quality, name):
    return next(part for part in quality.parts if part.name == name)


@pytest.mark.parametrize("skeleton_name", SKELETON_NAMES)
def test_a_person_who_sways_has_no_faults(make_clip, skeleton_name):
    quality = measure(make_clip(60, skeleton_name=skeleton_name))
    assert quality.badness < 0.01
    assert quality.reasons == ()
    assert [part.num_present for part in quality.parts] == [60] * len(quality.parts)
    assert quality.num_swaps == quality.num_jumps == quality.num_frozen == quality.num_doubled == 0


def test_presence_and_the_longest_gap_are_counted(make_clip):
    clip = make_clip(20)
    points = clip.points.copy()
    hand = clip.skeleton.part("left_hand")
    for frame in (0, 5, 6, 7, 19):
        points[frame, hand.start : hand.stop] = np.nan
    left = part_of(measure(change(clip, points)), "left_hand")
    assert (left.num_present, left.longest_gap) == (15, 3)
    assert left.strip.tolist() == [0, *[255] * 4, 0, 0, 0, *[255] * 11, 0]


def test_a_hand_found_elsewhere_for_one_frame_is_one_jump(make_clip):
    clip = make_clip(50)
    points = clip.points.copy()
    hand = clip.skeleton.part("right_hand")
    points[30, hand.start : hand.stop, 1] -= 0.4
    quality = measure(change(clip, points, frame_indices=np.arange(50) + 100))
    right = part_of(quality, "right_hand")
    assert (right.num_jumps, right.jump_frames) == (1, (130,))
    assert quality.num_jumps == 1
    assert "1 jump of right hand" in quality.reasons


def test_jumps_are_judged_by_the_size_of_the_person(make_clip):
    clip = make_clip(50)
    points = clip.points.copy()
    hand = clip.skeleton.part("right_hand")
    points[30:, hand.start : hand.stop, 1] -= 0.4
    for scale in (1.0, 0.25, 0.05):
        small = points.copy()
        small[..., :2] = 0.5 + scale * (points[..., :2] - 0.5)
        assert part_of(measure(change(clip, small)), "right_hand").num_jumps == 1
    # The same way in pixels is no jump for someone four times as large.
    points[30:, hand.start : hand.stop, 1] += 0.32
    assert part_of(measure(change(clip, points)), "right_hand").num_jumps == 0


def test_every_other_frame_is_a_clip_too_and_may_move_twice_as_far(make_clip):
    clip = make_clip(50)
    points = clip.points.copy()
    hand = clip.skeleton.part("right_hand")
    points[30:, hand.start : hand.stop, 1] -= 0.25  # 0.62 shoulder widths
    numbers = 2 * np.arange(50)
    assert measure(change(clip, points)).num_jumps == 1
    assert measure(change(clip, points, frame_indices=numbers)).num_jumps == 0
    points[30:, hand.start : hand.stop, 1] -= 0.25
    assert measure(change(clip, points, frame_indices=numbers)).num_jumps == 1


def test_hands_that_change_places_between_frames_are_suspect(make_clip):
    clip = make_clip(40, missing=("pose",))
    points = clip.points.copy()
    left, right = (clip.skeleton.part(name) for name in ("left_hand", "right_hand"))
    points[20, left.start : left.stop] = clip.points[20, right.start : right.stop]
    points[20, right.start : right.stop] = clip.points[20, left.start : left.stop]
    quality = measure(change(clip, points))
    assert quality.swap_frames == (20, 21)  # there and back
    assert quality.num_swaps == 2


def test_a_hand_that_begins_at_the_other_wrist_is_suspect_in_every_frame(make_clip):
    clip = make_clip(40, missing=("right_hand",))
    points = clip.points.copy()
    hand = clip.skeleton.part("left_hand")
    points[:, hand.start : hand.stop, 0] -= 0.3  # from the left wrist to the right one
    quality = measure(change(clip, points))
    assert quality.num_swaps == 40
    assert "left/right suspect in 40 frames" in quality.reasons


def test_hands_that_cross_slowly_are_not_suspect(make_clip):
    clip = make_clip(40, missing=("pose",), step=0)
    points = clip.points.copy()
    way = np.linspace(0, 0.3, 40)[:, None]
    left, right = (clip.skeleton.part(name) for name in ("left_hand", "right_hand"))
    points[:, left.start : left.stop, 0] -= way
    points[:, right.start : right.stop, 0] += way
    assert measure(change(clip, points)).num_swaps == 0


def test_both_hands_on_one_spot_are_counted(make_clip):
    clip = make_clip(40)
    points = clip.points.copy()
    left, right = (clip.skeleton.part(name) for name in ("left_hand", "right_hand"))
    points[5:9, left.start : left.stop] = points[5:9, right.start : right.stop] + 0.001
    quality = measure(change(clip, points))
    assert quality.num_doubled == 4
    assert "both hands on one spot in 4 frames" in quality.reasons


def test_repeated_frames_are_frozen(make_clip):
    clip = make_clip(40)
    points = clip.points.copy()
    points[11:15] = points[10]
    quality = measure(change(clip, points))
    assert quality.num_frozen == 4
    assert "4 frozen frames" in quality.reasons
    assert {part.num_frozen for part in quality.parts} == {4}


def test_frames_without_anybody_are_missing_not_frozen(make_clip):
    quality = measure(make_clip(10, missing=("pose", "face", "left_hand", "right_hand")))
    assert quality.num_frozen == 0
    assert quality.badness == 1
    assert quality.reasons[0] == "pose missing in 100%"


def test_points_outside_of_the_picture_are_counted(make_clip):
    clip = make_clip(10, step=0)
    points = clip.points.copy()
    hand = clip.skeleton.part("left_hand")
    points[:5, hand.start : hand.stop, 0] = 1.2
    quality = measure(change(clip, points))
    assert part_of(quality, "left_hand").outside == pytest.approx(0.5)
    assert part_of(quality, "right_hand").outside == 0
    assert "left hand 50% outside the picture" in quality.reasons


def test_points_scaled_for_a_model_are_not_outside_of_anything(make_clip):
    clip = make_clip(10)
    points = clip.points.copy()
    points[..., :2] = (points[..., :2] - 0.5) * 30
    unknown = np.zeros_like(clip.sizes_wh)  # as of a file that says nothing of its pictures
    scaled = dataclasses.replace(change(clip, points), sizes_wh=unknown)
    assert np.isnan(part_of(measure(scaled), "pose").outside)


def test_loose_pictures_are_not_compared_with_one_another(make_clip):
    clip = make_clip(10)
    points = clip.points.copy()
    points[5:] += 0.4
    sizes = clip.sizes_wh.copy()
    sizes[3] = (100, 200)
    quality = measure(change(clip, points, sizes_wh=sizes))
    assert not quality.is_continuous
    assert quality.num_jumps == 0


def test_people_at_another_place_in_every_picture_are_not_compared(make_clip):
    clip = make_clip(10)
    places = np.random.default_rng(0).uniform(-0.3, 0.3, (10, 1, 2))
    points = clip.points.copy()
    points[..., :2] = points[..., :2] * 0.3 + 0.35 + places
    quality = measure(change(clip, points))
    assert not quality.is_continuous
    assert quality.num_jumps == quality.num_swaps == 0


def test_infinite_points_and_empty_clips_do_no_harm(make_clip):
    clip = make_clip(10)
    points = clip.points.copy()
    points[3, 5] = np.inf
    points[4, 6] = -1e38
    assert measure(change(clip, points)).num_frames == 10
    empty = measure(make_clip(0))
    assert (empty.num_frames, empty.badness, empty.reasons) == (0, 1.0, ("no frames",))


def test_runs_and_strips_of_small_and_long_series():
    assert longest_run(np.array([], bool)) == 0
    assert longest_run(np.array([True, True, False, True])) == 2
    flags = np.ones(100_000, bool)
    flags[500] = False
    strip = squeeze(flags)
    assert len(strip) == 240
    assert strip.tolist().count(254) == 1  # one missing frame of 417 shows


def part(name, *, present=100, jumps=0, outside=0.0):
    found = measure(make_person(3)).parts[0]
    return dataclasses.replace(
        found, name=name, num_present=present, num_jumps=jumps, outside=outside
    )


NONE = {"num_no_hands": 0, "num_swaps": 0, "num_doubled": 0, "num_frozen": 0}


@pytest.mark.parametrize(
    ("parts", "counts", "badness", "reasons"),
    [
        ([], {}, 0.0, ()),
        ([{"name": "pose", "present": 75}], {}, 0.25, ("pose missing in 25%",)),
        ([{"name": "face", "present": 50}], {}, 0.3, ("face missing in 50%",)),
        ([{"name": "left_hand", "present": 0}], {}, 0.0, ()),
        ([{"name": "feet", "present": 0}], {}, 0.0, ()),
        ([{"name": "left_hand", "outside": 0.5}], {}, 0.2,
         ("left hand 50% outside the picture",)),
        ([{"name": "left_hand", "outside": 0.02}], {}, 0.0, ()),
        ([{"name": "pose", "outside": 0.5}], {}, 0.0, ()),
        ([{"name": "left_hand", "jumps": 1}], {}, 0.12, ("1 jump of left hand",)),
        ([{"name": "left_hand", "jumps": 5}], {}, 0.6, ("5 jumps of left hand",)),
        ([{"name": "left_hand", "jumps": 9}], {}, 0.6, ("9 jumps of left hand",)),
        ([], {"num_no_hands": 50}, 0.15, ("no hands in 50%",)),
        ([], {"num_swaps": 2}, 0.14, ("left/right suspect in 2 frames",)),
        ([], {"num_swaps": 1}, 0.07, ("left/right suspect in 1 frame",)),
        ([], {"num_doubled": 30}, 0.7, ("both hands on one spot in 30 frames",)),
        ([], {"num_frozen": 50}, 0.2, ("50 frozen frames",)),
        ([], {"num_frozen": 1}, 0.0, ()),  # 0.004 is nothing
        ([], {"num_swaps": 30, "num_frozen": 50}, 0.76,
         ("left/right suspect in 30 frames", "50 frozen frames")),
    ],
)  # fmt: skip
def test_each_finding_takes_away_its_share_of_what_is_good(parts, counts, badness, reasons):
    found = _judge(tuple(part(**each) for each in parts), {**NONE, **counts}, 100)
    assert found == (pytest.approx(badness), reasons)
