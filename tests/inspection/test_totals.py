"""The totals of a run: what is counted, in which bin, and which clips are kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from posemill.inspection.quality import ClipQuality, PartQuality, RunQuality, gap_bin, gap_labels


def part(name: str = "face", **fields: Any) -> PartQuality:
    counts = {"num_present": 10, "longest_gap": 0, "num_jumps": 0, "num_frozen": 0} | fields
    return PartQuality(name, **counts, outside=0.0, jump_frames=(), strip=np.zeros(0, np.uint8))


def quality(*parts: PartQuality, **fields: Any) -> ClipQuality:
    known: dict[str, Any] = {
        "split": "train", "clip_id": "c", "num_frames": 10, "num_no_hands": 0, "num_swaps": 0,
        "num_doubled": 0, "num_frozen": 0, "is_continuous": True, "swap_frames": (),
        "badness": 0.0, "reasons": (),
    }  # fmt: skip
    return ClipQuality(parts=parts, **(known | fields))


def test_clips_are_counted_by_split_and_part() -> None:
    run = RunQuality(keep=1)
    run.add(quality(part(num_jumps=3), part("pose"), num_swaps=4))
    run.add(quality(part(num_jumps=1, num_present=5), num_doubled=2, num_frozen=6))
    run.add(quality(part(num_present=2), num_frames=7, num_doubled=1, num_frozen=1, num_swaps=1))
    run.add(quality(split="dev", num_frames=3))
    assert (run.num_clips, run.num_frames) == (4, 30)
    assert list(run.splits) == ["train", "dev"]
    found = asdict(run.splits["train"])
    parts = found.pop("parts")
    assert found == {
        "num_frames": 27, "num_swaps": 5, "clips_with_swaps": 2, "num_doubled": 3,
        "clips_with_doubled": 2, "num_frozen": 7, "clips_with_frozen": 2,
    }  # fmt: skip
    assert list(parts) == ["face", "pose"]
    assert parts["face"] == {
        "num_present": 17, "num_jumps": 4, "clips_with_jumps": 2,
        "clips_by_presence": [0, 0, 1, 0, 0, 1, 0, 0, 0, 1],
        "clips_by_gap": [3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("present", "expected"), [(0, 0), (9, 0), (10, 1), (89, 8), (90, 9), (99, 9), (100, 9)]
)
def test_presence_falls_into_tenths(present: int, expected: int) -> None:
    run = RunQuality(keep=0)
    run.add(quality(part(num_present=present, longest_gap=100 - present), num_frames=100))
    sums = run.splits["train"].parts["face"]
    assert np.flatnonzero(sums.clips_by_presence).tolist() == [expected]
    assert sums.clips_by_gap[gap_bin(100 - present)] == 1


def test_a_clip_without_frames_is_in_no_bin() -> None:
    run = RunQuality(keep=0)
    run.add(quality(part(num_present=0), num_frames=0))
    sums = run.splits["train"].parts["face"]
    assert sum(sums.clips_by_presence) == sum(sums.clips_by_gap) == 0
    assert len(sums.clips_by_presence) == len(sums.clips_by_gap) == 10


def test_the_worst_are_kept_and_of_equals_the_earlier() -> None:
    for keep, expected in ((0, []), (1, ["b"]), (3, ["b", "c", "a"]), (9, ["b", "c", "a", "d"])):
        run = RunQuality(keep=keep)
        for name, badness in (("a", 0.1), ("b", 0.9), ("c", 0.5), ("d", 0.1)):
            run.add(quality(clip_id=name, badness=badness))
        assert [each.clip_id for each in run.worst] == expected


def test_gaps_fall_into_labelled_bins() -> None:
    labels = gap_labels()
    assert labels == ["0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", ">128"]
    assert [labels[gap_bin(gap)] for gap in (0, 1, 3, 16, 17, 128, 129)] == [
        "0", "1", "3-4", "9-16", "17-32", "65-128", ">128",
    ]  # fmt: skip
