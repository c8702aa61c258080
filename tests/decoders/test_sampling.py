"""Which frames are read: the formulas by value, on usual, short and degenerate clips."""

import numpy as np
import pytest

from posemill.decoders.sampling import Sampling, dense_indices, fps_indices, segment_starts

FIXED = ["segments:8", "segments:3x5", "dense:8", "dense:32/64", "uniform:16", "segments:1"]


def draws(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("segments:8", "segments:8"),
        (" Segments:8x5 ", "segments:8x5"),
        ("dense:8", "dense:8/64"),
        ("dense:100", "dense:100/100"),
        ("dense:32/64", "dense:32/64"),
        ("uniform:16", "uniform:16"),
        ("stride:2", "stride:2"),
        ("fps:12.5", "fps:12.5"),
        ("all", "all"),
    ],
)
def test_a_text_names_a_sampling_and_is_its_name(text, written):
    sampling = Sampling.parse(text)
    assert str(sampling) == written
    assert Sampling.parse(written) == sampling
    assert Sampling.parse(sampling) is sampling


KNOWN = r"sampling: expected segments:8, dense:32/64, .* got '"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, KNOWN) for text in ("", "8", "segments", "segments:-1", "uniform:8x2",
                                     "dense:8x2", "segments:8/64", "fps:fast", "all:3", "tsn:8")),
        ("segments:0", "sampling segments: expected 1 or more, got 0"),
        ("stride:0", "sampling stride: expected 1 or more, got 0"),
        ("segments:8x0", "expected 1 or more frames of a segment"),
        ("dense:32/16", "a window of no fewer frames than are taken from it"),
    ],
)  # fmt: skip
def test_other_texts_and_numbers_that_mean_nothing_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Sampling.parse(text)


def test_an_unknown_kind_and_a_rate_or_clip_without_one_are_refused():
    with pytest.raises(ValueError, match="expected one of segments, dense, uniform, stride, fps"):
        Sampling("random", 8)
    for fps in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="sampling fps: expected more than 0, got"):
            Sampling("fps", fps=fps)
    for fps in (None, 0.0, float("nan")):
        with pytest.raises(ValueError, match=r"fps:5: the clip does not say how many frames a"):
            Sampling.parse("fps:5").indices(10, fps=fps)
    with pytest.raises(ValueError, match="expected 10 times, got 2"):
        Sampling.parse("fps:5").indices(10, seconds=np.zeros(2))


def test_segments_of_validation_are_the_middles_and_stop_at_the_last_frame():
    assert segment_starts(80, 8).tolist() == [5, 15, 25, 35, 45, 55, 65, 75]
    # tick = (30 - 5 + 1) / 3 = 8.667: int(4.33), int(13.0), int(21.67)
    assert segment_starts(30, 3, length=5).tolist() == [4, 13, 21]
    assert segment_starts(3, 8).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    sampling = Sampling.parse("segments:3x5")
    assert sampling.indices(30).tolist() == [4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 21, 22, 23, 24, 25]
    assert sampling.indices(2).tolist() == [0, 1, 1, 1, 1] * 3


def test_segments_of_training_lie_each_in_its_part():
    found = np.stack([segment_starts(85, 8, rng=draws(seed)) for seed in range(200)])
    parts = np.arange(8) * 10  # 85 // 8 = 10
    assert (found >= parts).all()
    assert (found < parts + 10).all()
    assert {tuple(sorted(set(found[:, 3])))} == {tuple(range(30, 40))}  # every place comes up


def test_segments_of_training_of_a_clip_with_fewer_places_than_parts():
    # 10 frames, 4 parts of 8: 3 places; N > max(S, L): drawn, in order
    found = np.stack([segment_starts(10, 4, length=8, rng=draws(seed)) for seed in range(50)])
    assert (np.diff(found) >= 0).all()
    assert set(found.flatten().tolist()) == {0, 1, 2}
    # N = 6 <= S = 8: round(arange(8) * 6 / 8)
    assert segment_starts(6, 8, rng=draws()).tolist() == [0, 1, 2, 2, 3, 4, 4, 5]
    # shorter than the frames of one segment
    assert segment_starts(3, 4, length=5, rng=draws()).tolist() == [0, 0, 0, 0]
    assert segment_starts(3, 4, length=5).tolist() == [0, 0, 0, 0]


def test_dense_takes_a_window_and_begins_again_where_a_clip_is_shorter():
    assert dense_indices(64, 8).tolist() == [0, 8, 16, 24, 32, 40, 48, 56]
    assert dense_indices(104, 8).tolist() == [20, 28, 36, 44, 52, 60, 68, 76]
    assert dense_indices(30, 8).tolist() == [0, 8, 16, 24, 2, 10, 18, 26]
    assert dense_indices(1, 4).tolist() == [0, 0, 0, 0]
    assert {int(dense_indices(66, 8, rng=draws(seed))[0]) for seed in range(40)} == {0, 1, 2}
    assert Sampling.parse("dense:32/64").indices(64).tolist() == list(range(0, 64, 2))


@pytest.mark.parametrize(
    ("text", "num_frames", "expected"),
    [
        ("uniform:5", 101, [0, 25, 50, 75, 100]),  # has the first and the last
        ("uniform:5", 3, [0, 0, 1, 2, 2]),
        ("uniform:1", 9, [0]),
        ("stride:3", 8, [0, 3, 6]),
        ("stride:30", 8, [0]),
        ("all", 4, [0, 1, 2, 3]),
    ],
)
def test_uniform_stride_and_all(text, num_frames, expected):
    assert Sampling.parse(text).indices(num_frames).tolist() == expected


def test_a_rate_takes_the_frames_on_show_at_its_moments():
    assert fps_indices(10, 12.5, fps=25).tolist() == [0, 2, 4, 6, 8]
    # every 1.2 frames: 0, 1.2, 2.4, 3.6, 4.8 of 30 frames a second
    assert fps_indices(6, 25, fps=30).tolist() == [0, 1, 2, 3, 4]
    assert fps_indices(7, 25, fps=30).tolist() == [0, 1, 2, 3, 4, 6]
    assert fps_indices(5, 60, fps=30).tolist() == [0, 1, 2, 3, 4], "nothing is made up"
    assert fps_indices(1, 5, fps=30).tolist() == [0]
    # 30000/1001 is a fraction that no float is
    assert fps_indices(300, 30000 / 1001, fps=30000 / 1001).tolist() == list(range(300))
    assert fps_indices(300, 15000 / 1001, fps=30000 / 1001).tolist() == list(range(0, 300, 2))


def test_a_rate_goes_by_the_times_where_frames_come_unevenly():
    # moments 0, 0.5, 1.0, 1.5 … ; the frame at 0.9 is still on show at 1.0 and 1.5
    seconds = np.array([5.0, 5.1, 5.2, 5.9, 7.0, 7.1])
    assert fps_indices(6, 2, seconds=seconds).tolist() == [0, 2, 3, 4]
    assert fps_indices(2, 30, seconds=np.array([0.0, 1e12])).tolist() == [0, 1]


@pytest.mark.parametrize("text", FIXED)
@pytest.mark.parametrize("num_frames", [1, 2, 3, 7, 8, 9, 63, 64, 65, 1000])
def test_every_clip_gives_as_many_frames_as_was_said(text, num_frames):
    sampling = Sampling.parse(text)
    for rng in (None, draws(1)):
        found = sampling.indices(num_frames, rng=rng)
        assert found.dtype == np.int64
        assert len(found) == sampling.num_frames
        assert found.min() >= 0
        assert found.max() < num_frames


def test_lengths_that_follow_from_the_clip_are_not_said_and_one_without_frames_is_refused():
    assert [Sampling.parse(text).num_frames for text in ("stride:2", "fps:5", "all")] == [None] * 3
    with pytest.raises(ValueError, match="sampling: expected a clip of 1 frame or more, got 0"):
        Sampling.parse("all").indices(0)
