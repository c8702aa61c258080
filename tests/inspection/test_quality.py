from dataclasses import replace

import numpy as np
import pytest
from made_up_people import make_person

from posemill.inspection.quality import ClipQuality, RunQuality, _judge, measure, squeeze
from posemill.skeletons import SKELETON_NAMES


def part_of(quality, name):
    return next(part for part in quality.parts if part.name == name)


@pytest.mark.parametrize("skeleton_name", SKELETON_NAMES)
def test_a_person_who_sways_has_no_faults(make_clip, skeleton_name):
    quality = measure(make_clip(60, skeleton_name=skeleton_name))
    assert quality.badness < 0.01
    assert quality.reasons == ()
    assert [part.num_present for part in quality.parts] == [60] * len(quality.parts)
    assert quality.num_swaps == quality.num_jumps == quality.num_frozen == quality.num_doubled == 0


def test_presence_gaps_and_a_hand_found_elsewhere_for_one_frame_are_counted(make_clip):
    clip = make_clip(20)
    clip.part("left_hand")[[0, 5, 6, 7, 19]] = np.nan
    left = part_of(measure(clip), "left_hand")
    assert (left.num_present, left.longest_gap) == (15, 3)
    assert left.strip.tolist() == [0, *[255] * 4, 0, 0, 0, *[255] * 11, 0]
    clip = make_clip(50, frame_indices=np.arange(50) + 100)
    clip.part("right_hand")[30, :, 1] -= 0.4
    quality = measure(clip)
    right = part_of(quality, "right_hand")
    assert (right.num_jumps, right.jump_frames) == (1, (130,))
    assert quality.num_jumps == 1
    assert "1 jump of right hand" in quality.reasons


def test_jumps_are_judged_by_the_size_of_the_person(make_clip):
    for scale in (1.0, 0.25, 0.05):
        clip = make_clip(50)
        clip.part("right_hand")[30:, :, 1] -= 0.4
        clip.points[..., :2] = 0.5 + scale * (clip.points[..., :2] - 0.5)
        assert part_of(measure(clip), "right_hand").num_jumps == 1
    # The same way in pixels is no jump for someone four times as large.
    clip = make_clip(50)
    clip.part("right_hand")[30:, :, 1] -= 0.08
    assert part_of(measure(clip), "right_hand").num_jumps == 0


def test_every_other_frame_is_a_clip_too_and_may_move_twice_as_far(make_clip):
    clip = make_clip(50)
    every_other = make_clip(50, frame_indices=2 * np.arange(50))
    for each in (clip, every_other):
        each.part("right_hand")[30:, :, 1] -= 0.25  # 0.62 shoulder widths
    assert (measure(clip).num_jumps, measure(every_other).num_jumps) == (1, 0)
    every_other.part("right_hand")[30:, :, 1] -= 0.25
    assert measure(every_other).num_jumps == 1


def test_hands_that_change_places_are_suspect_unless_they_cross_slowly(make_clip):
    clip = make_clip(40, missing=("pose",))
    left, right = clip.part("left_hand"), clip.part("right_hand")
    left[20], right[20] = right[20].copy(), left[20].copy()
    quality = measure(clip)
    assert quality.swap_frames == (20, 21)  # there and back
    assert quality.num_swaps == 2
    slow = make_clip(40, missing=("pose",), step=0)
    way = np.linspace(0, 0.3, 40)[:, None]
    slow.part("left_hand")[..., 0] -= way
    slow.part("right_hand")[..., 0] += way
    assert measure(slow).num_swaps == 0


def test_swapped_and_doubled_hands_and_repeated_frames_are_counted(make_clip):
    clip = make_clip(40, missing=("right_hand",))
    clip.part("left_hand")[..., 0] -= 0.3  # from the left wrist to the right one
    quality = measure(clip)
    assert quality.num_swaps == 40
    assert "left/right suspect in 40 frames" in quality.reasons
    clip = make_clip(40)
    clip.part("left_hand")[5:9] = clip.part("right_hand")[5:9] + 0.001
    clip.points[21:26] = clip.points[20]
    quality = measure(clip)
    assert (quality.num_doubled, quality.num_frozen) == (4, 5)
    assert {"both hands on one spot in 4 frames", "5 frozen frames"} <= set(quality.reasons)
    assert {part.num_frozen for part in quality.parts} == {5}


def test_points_outside_of_the_picture_are_counted(make_clip):
    clip = make_clip(10, step=0)
    clip.part("left_hand")[:5, :, 0] = 1.2
    quality = measure(clip)
    assert part_of(quality, "left_hand").outside == pytest.approx(0.5)
    assert part_of(quality, "right_hand").outside == 0
    assert "left hand 50% outside the picture" in quality.reasons
    clip = make_clip(10, size_wh=(0, 0))  # as of a file that says nothing of its pictures
    clip.points[..., :2] = (clip.points[..., :2] - 0.5) * 30  # scaled for a model
    assert np.isnan(part_of(measure(clip), "pose").outside)


def test_loose_pictures_are_not_compared_with_one_another(make_clip):
    sizes = make_clip(10)
    sizes.points[5:] += 0.4
    sizes.sizes_wh[3] = (100, 200)
    places = make_clip(10)  # people at another place in every picture
    somewhere = np.random.default_rng(0).uniform(-0.3, 0.3, (10, 1, 2))
    places.points[..., :2] = places.points[..., :2] * 0.3 + 0.35 + somewhere
    for quality in map(measure, (sizes, places)):
        assert not quality.is_continuous
        assert quality.num_jumps == quality.num_swaps == 0


def test_infinite_points_nobody_and_empty_clips_do_no_harm(make_clip):
    clip = make_clip(10)
    clip.points[3, 5], clip.points[4, 6] = np.inf, -1e38
    assert measure(clip).num_frames == 10
    nobody = measure(make_clip(10, missing=("pose", "face", "left_hand", "right_hand")))
    assert (nobody.num_frozen, nobody.badness) == (0, 1)
    assert nobody.reasons[0] == "pose missing in 100%"
    assert "no hands in 100%" in nobody.reasons
    empty = measure(make_clip(0))
    assert (empty.num_frames, empty.badness, empty.reasons) == (0, 1.0, ("no frames",))


def test_a_strip_of_a_long_series_shows_a_single_frame():
    flags = np.ones(100_000, bool)
    flags[500] = False
    strip = squeeze(flags)
    assert len(strip) == 240
    assert strip.tolist().count(254) == 1  # one missing frame of 417 shows


def part(name, *, present=100, jumps=0, outside=0.0):
    first = measure(make_person(3)).parts[0]
    return replace(first, name=name, num_present=present, num_jumps=jumps, outside=outside)


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


def quality(*parts, **fields):
    known = {
        "split": "train", "clip_id": "c", "num_frames": 10, "num_swaps": 0, "num_doubled": 0,
        "num_frozen": 0, "is_continuous": True, "swap_frames": (), "badness": 0.0, "reasons": (),
    }  # fmt: skip
    return ClipQuality(parts=parts, **(known | fields))


def test_clips_are_counted_by_split_and_part():
    run = RunQuality(keep=1)
    run.add(quality(part("face", present=10, jumps=3), part("pose"), num_swaps=4))
    run.add(quality(part("face", present=5, jumps=1), num_doubled=2, num_frozen=6))
    face = part("face", present=2)
    run.add(quality(face, num_frames=7, num_doubled=1, num_frozen=1, num_swaps=1))
    run.add(quality(split="dev", num_frames=3))
    assert run.num_clips == 4
    assert {split: totals.num_frames for split, totals in run.splits.items()} == {
        "train": 27, "dev": 3
    }  # fmt: skip
    found = run.splits["train"]
    assert found.sums == {"num_swaps": 5, "num_doubled": 3, "num_frozen": 7}
    assert found.clips == {"num_swaps": 2, "num_doubled": 2, "num_frozen": 2}
    assert list(found.parts) == ["face", "pose"]
    assert found.parts["face"] == {
        "num_present": 17, "num_jumps": 4, "clips_with_jumps": 2
    }  # fmt: skip


def test_the_worst_are_kept_and_of_equals_the_earlier():
    for keep, expected in ((0, []), (1, ["b"]), (3, ["b", "c", "a"]), (9, ["b", "c", "a", "d"])):
        run = RunQuality(keep=keep)
        for name, badness in (("a", 0.1), ("b", 0.9), ("c", 0.5), ("d", 0.1)):
            run.add(quality(clip_id=name, badness=badness))
        assert [each.clip_id for each in run.worst] == expected
