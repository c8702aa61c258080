"""The table of a run: its columns, clips to rows and back, and headers that are not ours."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from posemill.errors import RunError
from posemill.records import PoseClip
from posemill.runs.schema import (
    CLIP_COLUMNS,
    OPTIONAL,
    arrays_of,
    block_of,
    check_schema,
    floats_of,
    integers_of,
    numbers_of,
    run_schema,
    skeleton_of,
    table_of,
)

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


def make_clip(clip_id="a", num_frames=3, **more):
    """A clip of 18 points that counts up; its second frame shows nobody."""
    points = np.arange(num_frames * 54, dtype=np.float32).reshape(num_frames, 18, 3)
    points[1:2] = np.nan
    scores = np.linspace(0.1, 0.9, num_frames * 18, dtype=np.float32).reshape(num_frames, 18)
    sizes = np.array([[210 + index, 260 - index] for index in range(num_frames)], np.int32)
    return PoseClip(points, scores, sizes, "openpose-18", clip_id=clip_id, **more)


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
    assert set(CLIP_COLUMNS) == {*run_schema("openpose-18", OPTIONAL).names} - {
        "split",
        "clip_id",
        "has_pose",
    }


def test_a_schema_says_its_skeleton_if_it_is_one_we_can_read():
    schema = run_schema("openpose-18")
    assert check_schema(schema, "x") == skeleton_of(schema) == "openpose-18"
    newer = schema.with_metadata({**schema.metadata, b"posemill.schema_version": b"3"})
    with pytest.raises(RunError) as caught:
        check_schema(newer, "x.parquet")
    assert str(caught.value) == (
        "x.parquet: schema version 3, this posemill reads 2; use the posemill that made it"
    )


@pytest.mark.parametrize("left", [(), ("skeleton",), ("schema_version",)])
def test_a_header_that_is_not_ours_is_refused(left):
    schema = run_schema("openpose-18")
    metadata = {f"posemill.{name}".encode(): b"2" for name in left}
    with pytest.raises(RunError) as caught:
        check_schema(schema.with_metadata(metadata or None), "x.parquet")
    assert str(caught.value) == (
        "x.parquet: not a shard of a posemill run (no schema version in its header)"
    )


def test_rows_say_everything_about_a_clip():
    clip = make_clip(
        "é", 2, split="dev", label="HELLO", fps=12.5, extra={"b": "ü", "a": 1},
        image_paths=("1.png", "2.png"), frame_indices=np.array([4, 6]),
    )  # fmt: skip
    table = table_of(clip)
    assert table.schema.equals(run_schema("openpose-18"), check_metadata=True)
    rows = table.to_pylist()
    first, second = ({**row} for row in rows)
    assert first.pop("keypoints") == list(range(54))
    assert np.isnan(second.pop("keypoints")).all()
    assert first.pop("scores") == clip.scores[0].tolist()
    assert second.pop("scores") == clip.scores[1].tolist()
    same = {"split": "dev", "clip_id": "é", "label": "HELLO", "fps": 12.5,
            "extra": '{"a": 1, "b": "ü"}'}  # fmt: skip
    assert first == {**same, "frame_index": 4, "image_path": "1.png", "width": 210,
                     "height": 260, "has_pose": True}  # fmt: skip
    assert second == {**same, "frame_index": 6, "image_path": "2.png", "width": 211,
                      "height": 259, "has_pose": False}  # fmt: skip


def test_what_a_clip_does_not_say_is_null():
    row = table_of(make_clip(num_frames=1)).to_pylist()[0]
    assert [row[name] for name in ("image_path", "label", "fps", "extra")] == [None] * 4


def test_names_that_are_not_unicode_are_spelled_out():
    odd = "caf\udce9"
    clip = make_clip(odd, 1, split=odd, label=odd, image_paths=(odd,), extra={"x": odd})
    row = table_of(clip).to_pylist()[0]
    spelled = "caf\\xe9"
    assert [row[name] for name in ("clip_id", "split", "label", "image_path")] == [spelled] * 4
    assert row["extra"] == '{"x": "caf\\xe9"}'


def test_extra_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match=r"clip 'a': extra holds what JSON cannot: .*object"):
        table_of(make_clip(extra={"x": object()}))


def test_clips_come_back_from_their_rows():
    one = make_clip("a", 2, split="dev", label="A", fps=5.0, extra={"x": 1})
    two = make_clip("b", 3, split="dev", image_paths=("1", "2", "3"))
    table = pa.concat_tables([table_of(one), table_of(two)])
    block = block_of(table, [("dev", "a"), ("dev", "b")], [2, 3], MADE)
    assert (len(block.frames), block.frames.clip_id, block.frames.split) == (5, "a", "dev")
    for got, clip in zip(block.clips, (one, two), strict=True):
        for name in ("points", "scores", "sizes_wh", "frame_indices"):
            np.testing.assert_array_equal(getattr(got, name), getattr(clip, name), err_msg=name)
        for name in ("clip_id", "split", "label", "fps", "image_paths", "skeleton_name"):
            assert getattr(got, name) == getattr(clip, name), name
        assert dict(got.extra) == dict(clip.extra)
        assert (got.normalized, got.interpolated) == ("shoulders", 2)
    with pytest.raises(ValueError, match="zip"):
        block_of(table, [("dev", "a")], [2, 3], MADE)


def test_paths_that_are_there_in_part_are_none():
    clip = make_clip(num_frames=2, image_paths=("1.png", "2.png"))
    table = table_of(clip)
    index = table.schema.get_field_index("image_path")
    table = table.set_column(index, "image_path", pa.array(["1.png", None]))
    assert block_of(table, [("all", "a")], [2], MADE).clips[0].image_paths == ()


def test_in_a_part_points_that_were_not_found_have_no_score():
    table = table_of(make_clip(num_frames=2))
    whole = block_of(table, [("all", "a")], [2], MADE)
    assert (whole.frames.scores > 0).all()
    part = block_of(table, [("all", "a")], [2], MADE, part_of=MADE["skeleton_name"])
    assert (part.clips[0].scores[1] == 0).all()
    np.testing.assert_array_equal(part.clips[0].scores[0], whole.clips[0].scores[0])
    # The table itself is as it was.
    assert (arrays_of(table, "openpose-18")["scores"] > 0).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "the shard of clip 'a' is damaged: its extra "),
     ("[1]", "the shard of clip 'a' is damaged: its extra ")],
)  # fmt: skip
def test_extra_that_is_damaged_names_the_clip(text, said):
    table = table_of(make_clip(num_frames=1))
    index = table.schema.get_field_index("extra")
    table = table.set_column(index, "extra", pa.array([text]))
    with pytest.raises(RunError, match=said):
        block_of(table, [("all", "a")], [1], MADE)


def test_arrays_have_their_shapes_and_types():
    arrays = arrays_of(table_of(make_clip(num_frames=2)), "openpose-18")
    shapes = {name: (values.shape, str(values.dtype)) for name, values in arrays.items()}
    assert shapes == {
        "points": ((2, 18, 3), "float32"), "scores": ((2, 18), "float32"),
        "sizes_wh": ((2, 2), "int32"), "frame_indices": ((2,), "int64"),
    }  # fmt: skip
    assert arrays["sizes_wh"].tolist() == [[210, 260], [211, 259]]
    empty = arrays_of(run_schema("openpose-18").empty_table(), "openpose-18")
    assert empty["points"].shape == (0, 18, 3)
    assert empty["frame_indices"].dtype == np.int64


def test_columns_of_chunks_and_slices_become_one_array():
    values = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
    assert floats_of(pa.chunked_array([values.slice(1)])).tolist() == [3, 4, 5, 6]
    both = floats_of(pa.chunked_array([values.slice(2), values.slice(0, 1)]))
    assert (both.tolist(), both.dtype) == ([5, 6, 1, 2], np.float32)
    nothing = floats_of(pa.chunked_array([], values.type))
    assert (nothing.tolist(), nothing.dtype) == ([], np.float32)
    numbers = pa.chunked_array([[1, 2], [3]], pa.int32())
    assert integers_of(numbers, np.int32).tolist() == [1, 2, 3]
    assert integers_of(pa.chunked_array([], pa.int32()), np.int32).dtype == np.int32


def test_numbers_are_not_copied_unless_some_are_missing():
    whole = pa.array([1.0, 2.0])
    assert numbers_of(whole).tolist() == [1, 2]
    assert not numbers_of(whole).flags.writeable
    assert np.isnan(numbers_of(pa.array([1.0, None]))[1])
