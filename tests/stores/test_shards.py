"""Which rows make a block, and how rows that follow each other are read as one."""

from __future__ import annotations

import pytest

from posemill.stores import shards
from posemill.stores.shards import BlockPlan, ShardRows, _joined, plan_blocks


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_FRAMES", 10)


def rows(*found):
    """`(clip_no, shard, num_rows)` each, of one split, one behind the other."""
    offsets: dict[str, int] = {}
    result = []
    for clip_no, shard, num_rows in found:
        result.append(ShardRows(clip_no, "all", f"c{clip_no}", shard, offsets.get(shard, 0),
                                num_rows))  # fmt: skip
        offsets[shard] = offsets.get(shard, 0) + num_rows
    return result


def clips_of(plans):
    return [[each.clip_no for each in plan.rows] for plan in plans]


def test_a_block_ends_with_its_shard_once_it_is_large_enough():
    found = rows((1, "x", 4), (2, "x", 6), (3, "y", 3), (4, "y", 3))
    assert clips_of(plan_blocks(found)) == [[1, 2], [3, 4]]
    found = rows((1, "x", 4), (2, "x", 5), (3, "y", 3), (4, "y", 3))  # 9 are not enough
    assert clips_of(plan_blocks(found)) == [[1, 2, 3, 4]]


def test_a_block_goes_on_within_a_shard_until_it_is_twice_as_large():
    found = rows(*((number, "x", 5) for number in range(1, 7)))
    assert clips_of(plan_blocks(found)) == [[1, 2, 3, 4], [5, 6]]


def test_a_block_is_of_one_split():
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


def test_rows_that_follow_each_other_in_a_shard_are_read_as_one():
    found = rows((1, "x", 3), (2, "x", 4), (3, "y", 2), (4, "y", 5))
    gap = found[3]._replace(offset=3)
    joined = [(each.shard, each.offset, each.num_rows) for each in _joined([*found[:3], gap])]
    assert joined == [("x", 0, 7), ("y", 0, 2), ("y", 3, 5)]
    assert list(_joined(found[:1])) == found[:1]
