import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from posemill.errors import RunError
from posemill.records import OtherPeople, PersonIds, PoseClip, join_people, nobody_else
from posemill.runs.schema import CLIP_COLUMNS, OPTIONAL, block_of, run_schema, table_of
from tests.runs.conftest import small_clip, write_run

WITHOUT_PANDAS = """
import sys
import pyarrow as pa
from posemill.runs.schema import leave_pandas_unloaded

leave_pandas_unloaded()
table = pa.table({"a": pa.array([1, 2])})
assert "pandas" not in sys.modules, "loaded for an array"
assert table.to_pandas()["a"].tolist() == [1, 2]
assert pa.array(table.to_pandas()["a"]).to_pylist() == [1, 2]
"""
MADE = {"skeleton_name": "openpose-18", "normalized": "shoulders", "interpolated": 2}


def test_arrays_are_made_without_pandas_which_is_there_when_it_is_asked_for():
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)


def test_the_columns_their_types_and_what_may_be_null():
    schema = run_schema("openpose-18")
    assert [(each.name, str(each.type), each.nullable) for each in schema] == [
        ("split", "string", False), ("clip_id", "string", False),
        ("frame_index", "int64", False), ("image_path", "string", True),
        ("width", "int32", False), ("height", "int32", False), ("has_pose", "bool", False),
        ("keypoints", "fixed_size_list<item: float>[54]", False),
        ("scores", "fixed_size_list<item: float>[18]", False),
        ("label", "string", True), ("fps", "double", True), ("extra", "string", True),
    ]  # fmt: skip
    assert schema.metadata == {
        b"posemill.schema_version": b"2", b"posemill.skeleton": b"openpose-18",
    }  # fmt: skip
    not_of_clips = {*run_schema("openpose-18", OPTIONAL).names} - {*CLIP_COLUMNS}
    assert not_of_clips == {"split", "clip_id", "frame_index", "has_pose"}


def test_rows_say_everything_about_a_clip():
    clip = small_clip(
        "é", 2, start=3, first=4, split="dev", label="HELLO", fps=12.5, extra={"b": "ü", "a": 1},
        image_paths=("1.png", "2.png"),
    )  # fmt: skip
    table = table_of(clip)
    assert table.schema.equals(run_schema("openpose-18"), check_metadata=True)
    rows = table.to_pylist()
    first, second = ({**row} for row in rows)
    assert first.pop("keypoints") == [3] * 54
    assert np.isnan(second.pop("keypoints")).all()
    same = {"split": "dev", "clip_id": "é", "label": "HELLO", "fps": 12.5, "scores": [0.5] * 18,
            "extra": '{"a": 1, "b": "ü"}', "width": 210, "height": 260}  # fmt: skip
    assert first == {**same, "frame_index": 4, "image_path": "1.png", "has_pose": True}
    assert second == {**same, "frame_index": 5, "image_path": "2.png", "has_pose": False}


def test_names_that_are_not_unicode_are_spelled_out_and_extra_that_is_no_json_is_refused():
    odd = "caf\udce9"
    clip = small_clip(odd, 1, split=odd, label=odd, image_paths=(odd,), extra={"x": odd})
    row = table_of(clip).to_pylist()[0]
    spelled = "caf\\xe9"
    assert [row[name] for name in ("clip_id", "split", "label", "image_path")] == [spelled] * 4
    assert row["extra"] == '{"x": "caf\\xe9"}'
    with pytest.raises(ValueError, match=r"clip 'a': extra holds what JSON cannot: .*object"):
        table_of(small_clip(extra={"x": object()}))


def read_with(name, values):
    """The clip of two rows with other values in a column."""
    table = table_of(small_clip(num_frames=2, image_paths=("1.png", "2.png")))
    table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    return block_of(table, [("all", "a")], [2], MADE, whole="openpose-18").clips[0]


def test_paths_that_are_there_in_part_are_none_and_extra_that_is_damaged_names_the_clip():
    assert read_with("image_path", ["1.png", None]).image_paths == ()
    for text in ("{", "[1]"):
        with pytest.raises(RunError, match="the shard of clip 'a' is damaged: its extra "):
            read_with("extra", [text, text])


def clip_of(counts, clip_id="a", *, seed=0):
    """Return a clip of openpose-18 with so many people beside the first in each frame."""
    rng = np.random.default_rng(seed)
    points = rng.random((len(counts), 18, 3), np.float32)
    others = OtherPeople(
        np.array(counts, np.int64),
        rng.random((sum(counts), 18, 3), np.float32),
        rng.random((sum(counts), 18), np.float32),
        ids=PersonIds(np.arange(len(counts)), 100 + np.arange(sum(counts))),
    )
    sizes = np.full((len(counts), 2), 100, np.int32)
    return PoseClip(points, np.ones(points.shape[:2], np.float32), sizes, "openpose-18",
                    clip_id=clip_id, others=others)  # fmt: skip


def same_people(one, other):
    for name in ("counts", "points", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    if other.ids is not None and one.ids is not None:
        np.testing.assert_array_equal(np.concatenate(one.ids), np.concatenate(other.ids))


def test_people_come_back_as_they_were(tmp_path):
    clips = [clip_of([0, 2, 1], "a"), clip_of([0], "b", seed=1), clip_of([3, 0], "c", seed=2)]
    run = write_run(tmp_path / "run", *clips)
    for clip, read in zip(clips, run, strict=True):
        same_people(read.others, clip.others)
        np.testing.assert_array_equal(read.points, clip.points)
    same_people(run["c"].others, clips[2].others)
    assert run["c"].others.ids.others.tolist() == [100, 101, 102]


def test_clips_of_one_person_beside_clips_of_several_have_nobody_else(tmp_path):
    alone = replace(clip_of([0, 0], "alone"), others=None)
    for rows, name in ((4096, "one-shard"), (1, "two-shards")):
        both = clip_of([2], "both", seed=3)
        run = write_run(tmp_path / name, alone, both, rows_per_shard=rows)
        read = {clip.clip_id: clip for clip in run}
        same_people(read["both"].others, both.others)
        same_people(read["alone"].others, nobody_else(2, 18))
    run = write_run(tmp_path / "run", alone)
    assert run["alone"].others is None
    assert "other_keypoints" not in run.table().column_names


def test_people_that_do_not_fit_are_refused_and_unknown_ones_join_to_unknown():
    clip = clip_of([1, 1])
    with pytest.raises(ValueError, match=r"others.counts: expected shape \(2,\)"):
        PoseClip(clip.points, clip.scores, clip.sizes_wh, "openpose-18", others=nobody_else(1, 18))
    with pytest.raises(ValueError, match=r"others.points: expected shape \(0, 18, 3\)"):
        PoseClip(clip.points, clip.scores, clip.sizes_wh, "openpose-18", others=nobody_else(2, 17))
    both = join_people([nobody_else(2, 18), clip_of([1]).others])
    assert both
    assert both.counts.tolist() == [0, 0, 1]
    assert join_people([nobody_else(2, 18), None]) is None
    assert join_people([]) is None


def test_others_take_another_layout_with_the_clip(tmp_path):
    clip = clip_of([1, 2]).as_skeleton("coco-133")
    assert clip.others.points.shape == (3, 133, 3)
    np.testing.assert_array_equal(clip.others.points[:, 0], clip_of([1, 2]).others.points[:, 0])
    assert np.isnan(clip.others.points[:, 17:]).all()
