"""Which rows make a block, and rows out of the middle of shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posemill.blocks import BLOCK_FRAMES
from posemill.errors import RunError
from posemill.records import PoseClip
from posemill.stores import shards
from posemill.stores.schema import table_of
from posemill.stores.shards import BlockPlan, ShardRows, plan_blocks, read_rows, read_shard
from posemill.stores.writer import ROWS_PER_GROUP, write_table


def rows(*clips: tuple[int, str, str, int]) -> list[tuple[object, ...]]:
    """Rows as the ledger gives them: clip number, split, shard, length."""
    return [(no, split, f"clip{no}", shard, 0, length) for no, split, shard, length in clips]


def sizes_of(*clips: tuple[int, str, str, int]) -> list[list[int]]:
    return [plan.lengths for plan in plan_blocks(rows(*clips))]


def test_a_block_ends_with_a_shard_once_it_is_full() -> None:
    full = BLOCK_FRAMES
    assert sizes_of((1, "a", "x", full), (2, "a", "y", 1)) == [[full], [1]]
    assert sizes_of((1, "a", "x", full - 1), (2, "a", "y", 1)) == [[full - 1, 1]]
    # the same shard goes on: what lies in two blocks would be unpacked twice
    assert sizes_of((1, "a", "x", full), (2, "a", "x", 1)) == [[full, 1]]
    # but not for ever
    assert sizes_of((1, "a", "x", 2 * full), (2, "a", "x", 1)) == [[2 * full], [1]]
    assert sizes_of((1, "a", "x", 2 * full - 1), (2, "a", "x", 1)) == [[2 * full - 1, 1]]


def test_a_block_is_of_one_split() -> None:
    assert sizes_of((1, "a", "x", 5), (2, "b", "x", 5), (3, "b", "x", 1)) == [[5], [5, 1]]
    assert sizes_of() == []


def test_sizes_start_anew_with_every_block() -> None:
    full = BLOCK_FRAMES
    clips = [(1, "a", "x", full), (2, "a", "y", full - 1), (3, "a", "z", 1)]
    assert sizes_of(*clips) == [[full], [full - 1, 1]]


def test_pieces_of_a_clip_count_as_one() -> None:
    found = rows((1, "a", "x", 5), (1, "a", "y", 6), (2, "a", "y", 7))
    (plan,) = plan_blocks(found)
    assert (plan.lengths, len(plan)) == ([11, 7], 18)
    assert plan.names == [("a", "clip1"), ("a", "clip2")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder with a shard of two and a half row groups; every row is known by its x."""
    num_frames = 2 * ROWS_PER_GROUP + 50
    points = np.zeros((num_frames, 143, 3), np.float32)
    points[:, 0, 0] = np.arange(num_frames)
    sizes = np.ones((num_frames, 2), np.int32)
    clip = PoseClip(points, points[..., 0], sizes, "holistic-143", clip_id="a", split="train")
    (tmp_path / "shards").mkdir()
    write_table(table_of(clip), tmp_path / "shards" / "one.parquet")
    return tmp_path


def piece(clip_no: int, offset: int, num_rows: int) -> ShardRows:
    return ShardRows(clip_no, "train", f"clip{clip_no}", "one.parquet", offset, num_rows)


def read(folder: Path, *pieces: ShardRows) -> list[int]:
    table = read_rows(folder, BlockPlan(pieces), "holistic-143", ["frame_index"])
    assert table.column_names == ["frame_index"]
    return table["frame_index"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("offset", "num_rows"),
    [(0, 1), (0, 512), (511, 1), (512, 1), (511, 2), (512, 512), (1023, 2), (1073, 1), (3, 1071)],
)
def test_rows_are_read_on_both_sides_of_every_row_group(
    folder: Path, offset: int, num_rows: int
) -> None:
    assert ROWS_PER_GROUP == 512
    assert read(folder, piece(1, offset, num_rows)) == list(range(offset, offset + num_rows))


def test_only_the_row_groups_that_are_needed_are_unpacked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    real = shards.read_groups

    def spy(file: object, groups: range, wanted: object) -> object:
        seen.append(list(groups))
        return real(file, groups, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(shards, "read_groups", spy)
    for offset, num_rows in ((0, 512), (512, 512), (500, 20), (1024, 50), (511, 514)):
        read(folder, piece(1, offset, num_rows))
    assert seen == [[0], [1], [0, 1], [2], [0, 1, 2]]
    seen.clear()
    # what follows each other is read at once, also of several clips; the rest by itself
    read(folder, piece(1, 0, 5), piece(2, 5, 5), piece(3, 20, 5))
    assert seen == [[0], [0]]


def test_a_frame_that_was_tried_again_comes_in_its_place(folder: Path) -> None:
    """Rows 10 to 12 lie behind those of other clips, and belong between 9 and 13."""
    found = read(folder, piece(1, 8, 2), piece(1, 13, 2), piece(1, 10, 3), piece(2, 40, 2))
    assert found == [8, 9, 10, 11, 12, 13, 14, 40, 41]
    # frames of different clips are not mixed
    assert read(folder, piece(1, 90, 2), piece(2, 20, 1), piece(2, 10, 1)) == [90, 91, 10, 20]


def test_more_rows_than_a_shard_has_are_refused(folder: Path) -> None:
    with pytest.raises(RunError, match="counts 10 rows from 1070, the file has 4; it was changed"):
        read(folder, piece(1, 1070, 10))
    with pytest.raises(RunError, match="counts 1 rows from 2000, the file has 0; it was changed"):
        read(folder, piece(1, 2000, 1))


def test_a_shard_is_read_whole_and_of_its_own_skeleton_only(folder: Path) -> None:
    path = folder / "shards" / "one.parquet"
    assert read_shard(path, "holistic-143").num_rows == 2 * ROWS_PER_GROUP + 50
    with pytest.raises(RunError, match=r"one.parquet has holistic-143, its run has holistic-543"):
        read_shard(path, "holistic-543")
    with pytest.raises(RunError, match=r"none.parquet is missing, but the ledger counts on it"):
        read_shard(path.with_name("none.parquet"), "holistic-143")
