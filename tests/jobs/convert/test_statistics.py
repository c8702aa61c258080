"""Numbers about a split, by hand: lengths, missing points, gaps and coordinates."""

import numpy as np

from posemill import __version__
from posemill.blocks import join_clips
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.prepare import SplitStats
from posemill.records import PoseClip


def make_clip(clip_id, present, **more):
    """A clip of 18 points; in frame t each is (t, 10 t, -t), or none is found."""
    times = np.arange(len(present), dtype=np.float32)
    frames = np.stack([times, 10 * times, -times], 1)  # (T, 3)
    points = np.repeat(frames[:, None], 18, axis=1)
    points[~np.array(present, bool)] = np.nan
    sizes = np.full((len(present), 2), 100, np.int32)
    scores = np.ones((len(present), 18), np.float32)
    return PoseClip(points, scores, sizes, "openpose-18", clip_id=clip_id, split="dev", **more)


def stats_of(*blocks, recipe=None):
    """The numbers of a split that comes in these blocks of clips."""
    stats = SplitStats("dev", recipe or Recipe())
    for block in blocks:
        stats.add(join_clips(block))
    return stats.to_dict()


def test_numbers_of_a_few_clips():
    numbers = stats_of(
        [make_clip("a", [1, 1, 1]), make_clip("b", [1, 0, 0, 1, 0])],
        [make_clip("c", [0, 0]), make_clip("d", [0, 1])],
    )
    # Found: t of a is 0, 1, 2; of b 0, 3; of d 1: 6 of 12 frames.
    found = np.array([0, 1, 2, 0, 3, 1])
    mean, std = round(found.mean(), 6), round(found.std(), 6)
    assert numbers.pop("options") == Recipe().to_dict()
    assert numbers == {
        "split": "dev",
        "posemill": __version__,
        "skeleton": "openpose-18",
        "num_clips": 4,
        "num_frames": 12,
        "clip_frames": {"min": 2, "mean": 3.0, "max": 5},
        "missing_rate": 0.5,
        "parts": {"pose": {"missing_rate": 0.5, "longest_gap": 2, "longest_gap_clip": "b"}},
        "longest_gap": 2,
        "coordinates": {
            "x": {"mean": mean, "std": std, "min": 0.0, "max": 3.0},
            "y": {"mean": round(10 * found.mean(), 6), "std": round(10 * found.std(), 6),
                  "min": 0.0, "max": 30.0},
            "z": {"mean": -mean, "std": std, "min": -3.0, "max": 0.0},
        },
        "clips_without_points": 1,
        "clips_without_points_sample": ["c"],
    }  # fmt: skip


def test_rates_are_rounded_and_the_first_of_gaps_that_are_as_long_is_named():
    numbers = stats_of([make_clip("a", [1, 0, 0]), make_clip("b", [1, 1]), make_clip("c", [1, 1])])
    assert numbers["clip_frames"] == {"min": 2, "mean": 2.333, "max": 3}
    assert numbers["missing_rate"] == numbers["parts"]["pose"]["missing_rate"] == 0.285714
    clips = {"a": [1, 0], "b": [0, 1], "c": [0, 0, 1], "d": [1, 0, 0]}
    part = stats_of(*([make_clip(*clip)] for clip in clips.items()))["parts"]["pose"]
    assert (part["longest_gap"], part["longest_gap_clip"]) == (2, "c")


def test_a_split_without_clips_has_numbers_and_of_clips_without_points_twenty_are_named():
    numbers = stats_of()
    assert (numbers["num_clips"], numbers["num_frames"], numbers["skeleton"]) == (0, 0, "")
    assert numbers["clip_frames"] == {"min": 0, "mean": 0.0, "max": 0}
    # Of no points none was found.
    assert (numbers["missing_rate"], numbers["parts"], numbers["longest_gap"]) == (1.0, {}, 0)
    nothing = dict.fromkeys(("mean", "std", "min", "max"))
    assert numbers["coordinates"] == {"x": nothing, "y": nothing, "z": nothing}
    numbers = stats_of([make_clip(f"c{index}", [0]) for index in range(21)])
    assert numbers["clips_without_points"] == 21
    assert numbers["clips_without_points_sample"] == [f"c{index}" for index in range(20)]
    assert numbers["parts"]["pose"]["longest_gap_clip"] == "c0"
    assert numbers["coordinates"]["x"]["mean"] is None


def test_what_was_done_to_the_clips_before_is_recorded():
    clip = make_clip("a", [1], normalized="shoulders", interpolated=5)
    options = stats_of([clip], recipe=Recipe(interpolate=2))["options"]
    assert (options["normalize"], options["interpolate"]) == ("shoulders", 5)


def test_many_frames_add_up_without_loss_and_those_that_are_all_the_same_do_not_spread():
    clip = make_clip("a", [1] * 1000)  # a float32 alone would lose digits
    clip.points[..., 0] += 4000
    clip.points[..., 1] = 0.1
    numbers = stats_of([clip])["coordinates"]
    assert numbers["x"] == {"mean": 4499.5, "std": 288.674990, "min": 4000.0, "max": 4999.0}
    assert numbers["y"] == {"mean": 0.1, "std": 0.0, "min": 0.1, "max": 0.1}
    assert numbers["z"] == {"mean": -499.5, "std": 288.674990, "min": -999.0, "max": 0.0}
