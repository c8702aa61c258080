from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from posemill.clips.inputs import Outline
from posemill.inspection.quality import measure
from posemill.inspection.summary import (
    SplitSummary,
    clip_row,
    describe,
    group_failures,
    sample_rows,
    summarize,
)
from posemill.runs.queries import Failure


def outline(split="train", num_frames=4, **fields):
    known = {
        "clip_id": "c", "skeleton_name": "openpose-18", "num_present": (num_frames,),
        "sizes_wh": {(640, 480): num_frames},
    }  # fmt: skip
    return Outline(split=split, num_frames=num_frames, **(known | fields))


def failure(reason, clip_id="c", *, split="dev", num_frames=1):
    return Failure(clip_id, split, None, num_frames, "p", reason, "m")


def test_a_split_in_numbers():
    summary = SplitSummary("train")
    summary.add(outline(num_frames=2, num_present=(1,), normalized="bbox", interpolated=2))
    summary.add(outline(num_frames=5, sizes_wh={(640, 480): 1, (32, 24): 4}, interpolated=7))
    summary.add(outline(num_frames=3, skeleton_name="coco-133", num_present=(0, 0, 1, 2, 3)))
    assert summary.to_dict() == {
        "split": "train",
        "num_clips": 3,
        "num_frames": 10,
        "frames_per_clip": {"min": 2, "median": 3.0, "max": 5},
        "presence": {
            "pose": 0.6, "body": 0, "feet": 0, "face": 0.1, "left_hand": 0.2, "right_hand": 0.3
        },
        "sizes_wh": [
            {"width": 640, "height": 480, "num_frames": 6},
            {"width": 32, "height": 24, "num_frames": 4},
        ],
        "num_sizes": 2,
    }  # fmt: skip
    assert list(summary.skeleton_names) == ["openpose-18", "coco-133"]
    assert (list(summary.normalized), summary.interpolated) == (["bbox", "none"], 7)


def test_an_outline_of_many_clips_counts_as_many():
    one, many = SplitSummary("train"), SplitSummary("train")
    for _ in range(3):
        one.add(outline(num_frames=2, num_present=(1,), sizes_wh={(8, 9): 2}))
    many.add(outline(num_frames=2, num_present=(1,), sizes_wh={(8, 9): 2}, num_clips=3))
    for summary in (one, many):
        summary.add(outline(num_frames=7))
    assert many.to_dict() == one.to_dict()
    assert many.to_dict()["frames_per_clip"] == {"min": 2, "median": 2.0, "max": 7}


def test_a_split_without_frames_has_no_shares_and_of_many_sizes_five_are_listed():
    empty = SplitSummary("train").to_dict()
    assert empty["frames_per_clip"] == {"min": 0, "median": 0.0, "max": 0}
    assert (empty["num_clips"], empty["presence"]) == (0, {})
    summary = SplitSummary("train")
    summary.add(outline(num_frames=0))
    assert summary.to_dict()["presence"] == {"pose": None}
    summary = SplitSummary("train")
    summary.add(outline(sizes_wh={(width, 9): width for width in range(1, 7)}))
    found = summary.to_dict()
    assert [each["width"] for each in found["sizes_wh"]] == [6, 5, 4, 3, 2]
    assert found["num_sizes"] == 6


def test_all_splits_are_summed_where_there_are_several():
    (one,) = summarize([outline(), outline()])
    assert (one.split, one.num_frames) == ("train", 8)
    found = summarize([outline("dev", 3), outline(), outline("dev")], ["test", "dev"])
    assert [(each.split, each.num_frames) for each in found] == [
        ("test", 0), ("dev", 7), ("train", 4), ("all splits", 11),
    ]  # fmt: skip
    assert summarize([]) == []


def test_failures_are_grouped_the_most_frequent_first():
    found = group_failures([
        failure("seldom", num_frames=9),
        failure("often", "a", num_frames=0),
        failure("often", "a", num_frames=2),
        failure("often", "a", split="test", num_frames=3),
    ])  # fmt: skip
    assert [tuple(each.values()) for each in found] == [("often", 3, 5, 2), ("seldom", 1, 9, 1)]


def material(**answers):
    known = {"facts": {}, "failures": [], "samples": []}
    failed = answers.pop("failed", {})
    calls = {name: lambda value=value: value for name, value in (known | answers).items()}
    calls["num_failed"] = lambda unit="frames": failed.get(unit, {})
    return SimpleNamespace(path=Path("here"), name="here", kind="run", **calls)


def test_what_is_looked_at_is_described(make_clip):
    clips = [make_clip(2, clip_id=str(number)) for number in range(7)]
    found = describe(
        material(samples=clips), [outline(normalized="bbox", interpolated=2)], num_rows=3
    )
    assert [row["clip_id"] for row in found.pop("sample_rows")] == ["0", "1", "2"]
    (row,) = found.pop("splits")
    assert (row["split"], "clips_failed" in row) == ("train", False)
    assert found == {
        "path": "here", "kind": "run", "skeleton_names": ["openpose-18"], "normalized": ["bbox"],
        "interpolated": 2, "reasons": [],
    }  # fmt: skip
    assert len(describe(material(samples=clips), [])["sample_rows"]) == 5
    assert describe(material(samples=clips), [], num_rows=0)["sample_rows"] == []


def test_nothing_to_look_at_is_described_by_what_the_run_is_for():
    found = describe(material(facts={"skeleton_name": "coco-133", "is_finished": False}), [])
    assert found == {
        "path": "here", "kind": "run", "skeleton_names": ["coco-133"], "normalized": [],
        "interpolated": 0, "is_finished": False, "splits": [], "reasons": [], "sample_rows": [],
    }  # fmt: skip
    assert describe(material(), [])["skeleton_names"] == []


def test_failures_are_counted_by_split_and_in_all():
    found = describe(
        material(
            failed={"frames": {"train": 3, "dev": 4}, "clips": {"train": 1, "dev": 2}},
            failures=[failure("no picture")],
        ),
        [outline()],
    )
    assert [(row["split"], row["clips_failed"], row["frames_failed"]) for row in found["splits"]
            ] == [("train", 1, 3), ("dev", 2, 4), ("all splits", 3, 7)]  # fmt: skip
    assert found["reasons"] == [{"reason": "no picture", "failures": 1, "frames": 1, "clips": 1}]


def test_sample_rows_are_of_the_middle_of_clips_with_frames(make_clip):
    clip = make_clip(5, missing=("left_hand",), clip_id="a", split="dev", size_wh=(320, 240),
                     frame_indices=np.arange(5) * 2, image_paths=tuple("abcde"))  # fmt: skip
    clip.scores[2] = 0.5
    first, second = sample_rows([make_clip(0), clip, make_clip(1), make_clip(1)], 2)
    assert first == {
        "split": "dev", "clip_id": "a", "frame_index": 4, "size_wh": [320, 240],
        "num_found": {"pose": 33, "face": 468, "left_hand": 0, "right_hand": 21},
        "mean_score": 0.5, "image_path": "c",
    }  # fmt: skip
    assert second["image_path"] is None
    clip.scores[2] = 1 / 3
    assert sample_rows([clip], 1)[0]["mean_score"] == 0.333


def test_a_row_of_quality(make_clip):
    clip = make_clip(3, missing=("face",), clip_id="a", split="dev")
    clip.points[0, :33] = np.nan
    found = measure(clip)
    pose, face, *hands = found.parts
    pose = replace(pose, num_jumps=2, jump_frames=(1, 2), outside=1 / 3, num_frozen=1)
    found = replace(found, parts=(pose, face, *hands), badness=2 / 3, reasons=("r",), num_swaps=4,
                    num_doubled=5, num_frozen=6)  # fmt: skip
    row = clip_row(found)
    parts = row.pop("parts")
    assert row == {
        "split": "dev", "clip_id": "a", "num_frames": 3, "badness": 0.6667, "reasons": ["r"],
        "num_jumps": 2, "num_swaps": 4, "num_doubled": 5, "num_frozen": 6, "is_continuous": True,
    }  # fmt: skip
    assert list(parts) == ["pose", "face", "left_hand", "right_hand"]
    assert parts["pose"] == {
        "presence": 0.6667, "longest_gap": 1, "num_jumps": 2, "jump_frames": [1, 2],
        "num_frozen": 1, "outside": 0.3333,
    }  # fmt: skip
    assert (parts["face"]["presence"], parts["face"]["outside"]) == (0, None)
    assert clip_row(measure(make_clip(0)))["parts"]["pose"]["presence"] == 0
    assert clip_row(measure(make_clip(1)))["parts"]["pose"]["presence"] == pytest.approx(1)
