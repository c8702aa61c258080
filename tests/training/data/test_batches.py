from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from posemill.training.data.augment import Augment
from posemill.training.data.batches import BatchMaker, BucketSampler, Draw, collate, make_loader
from posemill.training.data.datasets import KeypointSet, Sample, make_set

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(3, 30, 53)


def make_clips(lengths: np.ndarray = LENGTHS) -> KeypointSet:
    samples = [
        Sample(RNG.random((n, 4, 2)).astype(np.float32), RNG.random((n, 4)) > 0.1, i % 3)
        for i, n in enumerate(lengths)
    ]
    return make_set(samples, ["a", "b", "c"])


def clips_of(sampler: BucketSampler) -> list[list[int]]:
    return [[draw.clip for draw in batch if draw.weight] for batch in sampler]


def test_a_batch_is_padded_with_zeros_that_the_mask_excludes() -> None:
    short = Sample(np.ones((2, 4, 3), np.float32), np.ones((2, 4), bool), 5)
    long = Sample(np.ones((6, 4, 3), np.float32), np.ones((6, 4), bool), 7)
    batch = collate([short, long])
    assert batch.points.shape == (2, 6, 4, 3)
    assert not batch.mask[0, 2:].any()
    assert not batch.points[0, 2:].any()
    assert batch.lengths.tolist() == [2, 6]
    assert batch.targets.tolist() == [5, 7]
    assert batch.weights.tolist() == [1, 1]
    assert batch.to("cpu").points.dtype == torch.float32


def test_gloss_targets_are_padded_too() -> None:
    samples = [
        Sample(np.ones((2, 1, 2), np.float32), np.ones((2, 1), bool), np.array(glosses))
        for glosses in ([3], [4, 5, 6])
    ]
    batch = collate(samples, [Draw(8), Draw(9, weight=0.0)])
    assert batch.targets.tolist() == [[3, 0, 0], [4, 5, 6]]
    assert batch.target_lengths.tolist() == [1, 3]
    assert batch.indices.tolist() == [8, 9]
    assert batch.weights.tolist() == [1, 0]


def test_every_clip_comes_once_an_epoch_in_an_order_of_its_own() -> None:
    sampler = BucketSampler(LENGTHS, 8, seed=3)
    first = clips_of(sampler)
    assert sorted(chain(*first)) == list(range(53))
    assert first == clips_of(sampler)
    sampler.set_position(1)
    assert clips_of(sampler) != first
    assert len(first) == len(sampler) == sampler.num_steps == 7


def test_clips_of_like_length_come_together() -> None:
    def padding(bucket_batches: int) -> int:
        sampler = BucketSampler(LENGTHS, 8, bucket_batches=bucket_batches)
        return sum(int(LENGTHS[b].max() * len(b) - LENGTHS[b].sum()) for b in clips_of(sampler))

    assert padding(32) < padding(0) / 3


@pytest.mark.parametrize(("world", "micro"), [(1, 3), (2, None), (3, 2), (5, 1)])
def test_ranks_and_micro_batches_share_the_same_steps(world: int, micro: int | None) -> None:
    whole = clips_of(BucketSampler(LENGTHS, 8, seed=3))
    ranks = [
        BucketSampler(LENGTHS, 8, seed=3, rank=rank, world_size=world, micro_batch_size=micro)
        for rank in range(world)
    ]
    parts = [list(sampler) for sampler in ranks]
    assert len({len(part) for part in parts}) == 1, "all ranks make as many passes"
    position = 0
    for step, batch in enumerate(whole):
        count = ranks[0].num_micro_batches(step)
        pieces = [piece for part in parts for piece in part[position : position + count]]
        found = [draw.clip for piece in pieces for draw in piece if draw.weight]
        assert sorted(found) == sorted(batch)
        assert all(len(piece) <= (micro or 8) and piece for piece in pieces)
        position += count
    assert position == len(parts[0])


def test_a_restored_position_continues_where_it_was() -> None:
    sampler = BucketSampler(LENGTHS, 8, seed=3, micro_batch_size=4)
    sampler.set_position(2)
    whole = clips_of(sampler)
    sampler.set_position(2, 3)
    state = sampler.state()
    other = BucketSampler(LENGTHS, 8, seed=3, micro_batch_size=4)
    other.load_state(state)
    skipped = sum(other.num_micro_batches(step) for step in range(3))
    assert clips_of(other) == whole[skipped:]
    assert len(other) == len(whole) - skipped


def test_without_shuffling_the_order_is_by_length_or_as_it_is() -> None:
    ordered = list(chain(*clips_of(BucketSampler(LENGTHS, 8, shuffle=False))))
    assert (np.diff(LENGTHS[ordered]) >= 0).all()
    plain = chain(*clips_of(BucketSampler(LENGTHS, 8, shuffle=False, bucket_batches=0)))
    assert list(plain) == list(range(53))


def test_nothing_to_draw_from_is_refused() -> None:
    with pytest.raises(ValueError, match="expected clips and a batch of 1 or more, got 0 clips"):
        BucketSampler(np.zeros(0, np.int64), 8)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_augmentation_does_not_depend_on_workers_or_batches(num_workers: int) -> None:
    clips = make_clips(LENGTHS[:12])
    maker = BatchMaker(clips, Augment(rotate=20, noise=0.1, time_warp=0.3), seed=5)
    sampler = BucketSampler(clips.lengths, 4, seed=1)
    sampler.set_position(3)
    loader = make_loader(maker, sampler, num_workers=num_workers)
    seen = {}
    for batch in loader:
        for row, clip in enumerate(batch.indices.tolist()):
            seen[clip] = batch.points[row, : batch.lengths[row]]
    assert sorted(seen) == list(range(12))
    for clip, points in seen.items():
        alone = maker.__getitems__([Draw(clip, 3)])
        torch.testing.assert_close(points, alone.points[0], rtol=0, atol=0)
        assert not torch.equal(maker[Draw(clip, 4)].points, alone.points)


def test_a_loader_draws_nothing_from_the_global_generator() -> None:
    clips = make_clips()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    list(make_loader(BatchMaker(clips), BucketSampler(clips.lengths, 8)))
    assert torch.equal(torch.get_rng_state(), state)
