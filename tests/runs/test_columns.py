"""Points in two parts: where they are in a shard, what is read of it, and shards of before."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posemill.errors import RunError
from posemill.runs.home import RunHome
from posemill.runs.schema import run_schema
from posemill.runs.shards import read_rows
from posemill.skeletons.layouts import FACE_68_OF_468
from tests.runs.conftest import SHARD, random_clip, recommit, write_run


def make_clip(seed, num_frames, **more):
    """A clip with a NaN of its own bits, a score where nothing was found, and one that is none."""
    clip = random_clip(f"clip_{seed}", num_frames, seed=seed, **more)
    clip.points.view(np.uint32)[1, 40:44] = 0x7FC12345
    clip.scores[0, 505:507] = np.nan, 0.5
    return clip


CLIPS = [make_clip(1, 600, split="train"), make_clip(2, 3, split="train"), make_clip(3, 5)]


@pytest.fixture
def run(tmp_path):
    """A run of three shards."""
    return write_run(tmp_path / "run", *CLIPS, rows_per_shard=1)


def assert_same_bits(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype == np.float32
    assert np.array_equal(one.view(np.uint32), other.view(np.uint32))


def numbers(column):
    return column.combine_chunks().flatten().to_numpy()


def test_every_way_of_reading_gives_the_very_bits(run):
    points = np.concatenate([clip.points for clip in CLIPS])
    scores = np.concatenate([clip.scores for clip in CLIPS])
    for got, expected in zip(run.clips(), CLIPS, strict=True):
        assert_same_bits(got.points, expected.points)
        assert_same_bits(got.scores, expected.scores)
        assert got.skeleton_name == "holistic-543"
    arrays, table = run.to_numpy(), run.table()
    assert_same_bits(arrays["points"], points)
    assert_same_bits(arrays["scores"], scores)
    assert table.schema == run_schema("holistic-543")
    for name, expected in (("keypoints", points), ("scores", scores)):
        assert_same_bits(numbers(table[name]), expected.reshape(-1))
        alone = run.table("train", [name])
        assert alone.column_names == [name]
        assert_same_bits(numbers(alone[name]), expected[:603].reshape(-1))


def test_the_points_are_where_the_documentation_says(tmp_path):
    run = write_run(tmp_path / "run", CLIPS[2])
    table = pq.read_table(run.folder / "shards" / SHARD)
    assert table.column_names == [
        "split", "clip_id", "frame_index", "image_path", "width", "height", "has_pose", "has_face",
        "has_left_hand", "has_right_hand", "keypoints_143", "keypoints_other", "scores_143",
        "scores_other", "label", "fps", "extra"]  # fmt: skip
    clip, others = CLIPS[2], [33 + i for i in range(468) if i not in FACE_68_OF_468]
    usual = [*(33 + i for i in FACE_68_OF_468), *range(501, 543), *range(33)]
    for part, places in (("143", usual), ("other", others)):
        keypoints, scores = table[f"keypoints_{part}"], table[f"scores_{part}"]
        assert keypoints.type.list_size == 3 * len(places)
        assert scores.type.list_size == len(places)
        assert not keypoints.type.value_field.nullable
        assert_same_bits(numbers(keypoints).reshape(5, -1, 3), clip.points[:, places])
        assert_same_bits(numbers(scores).reshape(5, -1), clip.scores[:, places])


@pytest.mark.parametrize("layout", ["holistic-143", "openpose-18", "coco-133", "holistic-543"])
def test_a_layout_read_is_the_layout_made_of_all_points(run, layout):
    for plan in run.plan_blocks():
        block, whole = run.read_block(plan, layout), run.read_block(plan).as_skeleton(layout)
        assert block.frames.skeleton_name == layout
        assert_same_bits(block.frames.points, whole.frames.points)
        assert_same_bits(block.frames.scores, whole.frames.scores)
    for got, clip in zip(run.clips(skeleton_name=layout), CLIPS, strict=True):
        assert got.skeleton_name == layout
        assert_same_bits(got.points, clip.as_skeleton(layout).points)
        assert_same_bits(got.scores, clip.as_skeleton(layout).scores)


def test_a_layout_that_cannot_be_made_is_said(tmp_path):
    run = write_run(tmp_path / "run", CLIPS[2].as_skeleton("holistic-143"))
    with pytest.raises(ValueError, match="holistic-143 cannot become holistic-543"):
        next(run.clips(skeleton_name="holistic-543"))
    with pytest.raises(ValueError, match="unknown skeleton 'x'"):
        next(run.clips(skeleton_name="x"))


def damage(shard, column_name):
    """Change a bit of a column; its checksum no longer fits."""
    group = pq.ParquetFile(shard).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    (column,) = (each for each in columns if each.path_in_schema.split(".")[0] == column_name)
    content = bytearray(shard.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 20] ^= 1
    shard.write_bytes(content)


@pytest.mark.parametrize("part", ["143", "other"])
@pytest.mark.parametrize("name", ["keypoints", "scores"])
def test_only_what_a_layout_needs_is_read(tmp_path, name, part):
    run = write_run(tmp_path / "run", CLIPS[2])
    damage(run.folder / "shards" / SHARD, f"{name}_{part}")
    with pytest.raises(RunError, match=f"{SHARD} is damaged"):
        next(run.clips())
    if part == "other":
        (plan,) = run.plan_blocks()
        table = read_rows(RunHome.at(run.folder), plan, "holistic-543", part="holistic-143")
        assert table.schema == run_schema("holistic-143")
        next(run.clips(skeleton_name="openpose-18"))
        clip = next(run.clips(skeleton_name="holistic-143"))
        assert_same_bits(clip.points, CLIPS[2].as_skeleton("holistic-143").points)
    else:
        with pytest.raises(RunError, match=f"{SHARD} is damaged"):
            next(run.clips(skeleton_name="holistic-143"))
    other = {"keypoints": "scores", "scores": "keypoints"}[name]
    assert run.table(columns=[other]).num_rows == 5


@pytest.mark.parametrize("change", ["gone", "short", "other"])
@pytest.mark.parametrize("name", ["keypoints_143", "scores_other"])
def test_columns_that_are_not_ours_are_told(tmp_path, name, change):
    run = write_run(tmp_path / "run", CLIPS[2])
    shard = run.folder / "shards" / SHARD
    table = pq.read_table(shard)
    index = table.schema.get_field_index(name)
    if change == "gone":
        table = table.remove_column(index)
    else:
        kind = pa.list_(pa.float32(), 7) if change == "short" else pa.string()
        table = table.set_column(index, name, pa.array([None] * 5, kind))
    pq.write_table(table, shard)
    recommit(run.folder)
    with pytest.raises(RunError, match=rf"{SHARD} is damaged.*; put back a copy"):
        next(run.clips())
