"""Which rows make a block, and how rows that follow each other are read as one."""

import io

import numpy as np
import pytest

from posemill.errors import RunError
from posemill.records import PoseClip
from posemill.runs import shards
from posemill.runs.home import RunHome
from posemill.runs.shards import BlockPlan, ShardRows, checksum_of, plan_blocks, read_rows
from tests.runs.conftest import SHARD, small_clip, write_run


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_FRAMES", 10)


def rows(*found):
    """`(clip_no, shard, num_rows)` each, of one split."""
    return [
        ShardRows(clip_no, "all", f"c{clip_no}", shard, 0, num_rows, "")
        for clip_no, shard, num_rows in found
    ]


def clips_of(plans):
    return [[each.clip_no for each in plan.rows] for plan in plans]


def test_a_block_is_of_one_split_and_ends_with_its_shard_once_it_is_large_enough():
    found = rows((1, "x", 4), (2, "x", 6), (3, "y", 3), (4, "y", 3))
    assert clips_of(plan_blocks(found)) == [[1, 2], [3, 4]]
    found = rows((1, "x", 4), (2, "x", 5), (3, "y", 3), (4, "y", 3))  # 9 are not enough
    assert clips_of(plan_blocks(found)) == [[1, 2, 3, 4]]
    # Within a shard it goes on until it is twice as large.
    found = rows(*((number, "x", 5) for number in range(1, 7)))
    assert clips_of(plan_blocks(found)) == [[1, 2, 3, 4], [5, 6]]
    one, other = rows((1, "x", 2), (2, "x", 2))
    assert clips_of(plan_blocks([one, other._replace(split="dev")])) == [[1], [2]]
    assert list(plan_blocks([])) == []


def test_clips_are_not_cut_and_their_pieces_are_counted_together():
    found = rows((1, "x", 12), (1, "y", 13), (2, "y", 1))
    first, second = plan_blocks(found)
    assert (first.names, first.lengths, len(first)) == ([("all", "c1")], [25], 25)
    assert (second.names, second.lengths) == ([("all", "c2")], [1])
    both = BlockPlan(tuple(found))
    assert (both.names, both.lengths) == ([("all", "c1"), ("all", "c2")], [25, 1])


@pytest.fixture
def run(tmp_path):
    """A run of one clip of 1200 frames, in row groups of 512; the first point's x counts them."""
    points = np.zeros((1200, 18, 3), np.float32)
    points[:, 0, 0] = np.arange(1200)
    sizes = np.ones((1200, 2), np.int32)
    clip = PoseClip(points, points[..., 0], sizes, "openpose-18", clip_id="c1")
    return write_run(tmp_path / "run", clip).folder


def numbers(table):
    return table.column("keypoints").combine_chunks().flatten().to_numpy()[:: 18 * 3].tolist()


def plan(run, *spans):
    checksum = checksum_of(io.BytesIO((run / "shards" / SHARD).read_bytes()))
    return BlockPlan(tuple(ShardRows(1, "all", "c1", SHARD, *span, checksum) for span in spans))


@pytest.mark.parametrize(
    "span", [(0, 1), (0, 512), (511, 1), (511, 2), (512, 512), (513, 687), (0, 1200), (1199, 1)]
)
def test_rows_are_those_that_were_asked_for_whatever_groups_they_are_in(run, span):
    offset, count = span
    table = read_rows(RunHome.at(run), plan(run, span), "openpose-18")
    assert numbers(table) == list(range(offset, offset + count))


def test_rows_of_a_frame_that_was_tried_again_come_where_they_belong(run):
    table = read_rows(RunHome.at(run), plan(run, (6, 2), (3, 3)), "openpose-18", ["keypoints"])
    assert table.column_names == ["frame_index", "keypoints"]
    assert numbers(table) == [3, 4, 5, 6, 7]


def test_a_shard_that_is_shorter_than_its_record_or_not_there_is_said(run):
    home = RunHome.at(run)
    for span in ((1199, 2), (1300, 5)):
        with pytest.raises(RunError, match=f"counts on {sum(span)} rows, the file has 1200"):
            read_rows(home, plan(run, span), "openpose-18")
    whole = plan(run, (0, 1200))
    with pytest.raises(RunError, match="is not the shard that was committed"):
        read_rows(home, whole, "coco-133")
    (run / "shards" / SHARD).unlink()
    with pytest.raises(RunError, match="is missing, but the ledger counts on it"):
        read_rows(home, whole, "openpose-18")


def test_the_shard_of_another_run_and_one_exchanged_for_another_are_refused(tmp_path):
    run, other = (
        write_run(tmp_path / name, small_clip("a"), small_clip("b"), rows_per_shard=1)
        for name in ("run", "other")
    )
    shard = run.folder / "shards" / SHARD
    whole = shard.read_bytes()
    for stranger in (other.folder / "shards" / SHARD, shard.with_stem("part-000-0000001")):
        shard.write_bytes(stranger.read_bytes())
        with pytest.raises(RunError, match="is not the shard that was committed"):
            run.clip("a")
    shard.write_bytes(whole)
    assert len(run.clip("a")) == 3
