"""The totals of a run: what is counted, and which clips are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from posemill.inspection.quality import ClipQuality, PartQuality, RunQuality


def part(name="face", **fields):
    counts = {"num_present": 10, "longest_gap": 0, "num_jumps": 0, "num_frozen": 0} | fields
    return PartQuality(name, **counts, outside=0.0, jump_frames=(), strip=np.zeros(0, np.uint8))


def quality(*parts, **fields):
    known: dict[str, Any] = {
        "split": "train", "clip_id": "c", "num_frames": 10, "num_no_hands": 0, "num_swaps": 0,
        "num_doubled": 0, "num_frozen": 0, "is_continuous": True, "swap_frames": (),
        "badness": 0.0, "reasons": (),
    }  # fmt: skip
    return ClipQuality(parts=parts, **(known | fields))


def test_clips_are_counted_by_split_and_part():
    run = RunQuality(keep=1)
    run.add(quality(part(num_jumps=3), part("pose"), num_swaps=4))
    run.add(quality(part(num_jumps=1, num_present=5), num_doubled=2, num_frozen=6))
    run.add(quality(part(num_present=2), num_frames=7, num_doubled=1, num_frozen=1, num_swaps=1))
    run.add(quality(split="dev", num_frames=3))
    assert (run.num_clips, run.num_frames) == (4, 30)
    assert list(run.splits) == ["train", "dev"]
    found = run.splits["train"]
    assert found.num_frames == 27
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
