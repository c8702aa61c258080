import dataclasses
from dataclasses import fields

import numpy as np
import pytest
import torch
from small_sets import make_set

from posemill.training.config.data_settings import AugmentationSettings
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Batch, BucketSampler, Draw
from posemill.training.data.keypoint_clips import Sample, collate, share_of
from posemill.training.data.loaders import EpochLoader
from posemill.training.data.normalize import Augment
from posemill.training.runtime import Runtime

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(3, 30, 53)


def clips_of(sampler):
    return [[draw.clip for draw in batch if draw.weight] for batch in sampler]


def test_a_batch_is_padded_with_zeros_that_the_mask_excludes():
    short = Sample(np.ones((2, 4, 3), np.float32), np.ones((2, 4), bool), 5)
    long = Sample(np.ones((6, 4, 3), np.float32), np.ones((6, 4), bool), 7)
    batch = collate([short, long])
    points, mask, lengths = batch.inputs
    assert points.shape == (2, 6, 4, 3)
    for filled in (mask, points.eq(1).all(-1)):
        assert filled.all(-1).tolist() == [[True] * 2 + [False] * 4, [True] * 6]
    assert not points[0, 2:].any()
    assert lengths is batch.lengths
    found = {name: getattr(batch, name).tolist() for name in
             ("lengths", "targets", "weights", "target_lengths", "indices")}  # fmt: skip
    assert found == {"lengths": [2, 6], "targets": [5, 7], "weights": [1, 1],
                     "target_lengths": [1, 1], "indices": [0, 1]}  # fmt: skip
    assert batch.weights.dtype == batch.to("cpu").inputs[0].dtype == torch.float32
    assert len(batch) == 2
    glosses = [short._replace(target=np.array(target)) for target in ([3], [4, 5, 6])]
    batch = collate(glosses, [Draw(8), Draw(9, weight=0.0)])
    assert batch.targets.tolist() == [[3, 0, 0], [4, 5, 6]]
    assert batch.target_lengths.tolist() == [1, 3]
    assert (batch.indices.tolist(), batch.weights.tolist()) == ([8, 9], [1, 0])


def test_a_batch_goes_to_its_device_and_into_locked_memory_whole():
    calls = []

    class Tensor:
        def to(self, device, *, non_blocking):
            calls.append((device, non_blocking))
            return "moved"

        def pin_memory(self):
            return "pinned"

    names = [field.name for field in fields(Batch)]
    assert len(names) == 6
    batch = Batch(**{name: Tensor() for name in names})
    batch.inputs = (Tensor(), (Tensor(), Tensor()))  # two streams: tuples in a tuple
    moved = vars(batch.to("there", non_blocking=True))
    assert moved.pop("inputs") == ("moved", ("moved", "moved"))
    assert moved == dict.fromkeys(names[1:], "moved")
    assert calls == [("there", True)] * 8
    batch.lengths = batch.targets  # as lengths are among the inputs: moved once
    batch.to("there")
    assert len(calls) == 8 + 7
    assert calls[-1] == ("there", False)
    pinned = vars(batch.pin_memory())
    assert pinned.pop("inputs") == ("pinned", ("pinned", "pinned"))
    assert pinned == dict.fromkeys(names[1:], "pinned")


def test_batch_sizes_take_turns_and_the_same_clips_come_in_any_number_of_processes():
    sampler = BucketSampler(LENGTHS, (8, 4, 2), micro_batch_sizes=(4, 2, 1), seed=3)
    steps = sampler.num_steps
    assert [sampler.num_micro_batches(step) for step in range(steps)] == [2] * steps
    pieces = list(sampler)
    sizes = [len(pieces[at]) + len(pieces[at + 1]) for at in range(0, len(pieces), 2)]
    assert sizes == [8, 4, 2, 8, 4, 2, 8, 4, 2, 8, 3]
    assert [piece[0].turn for piece in pieces[::2]] == [0, 1, 2] * 3 + [0, 1]
    assert sorted([draw.clip for piece in pieces for draw in piece]) == list(range(53))
    shares = [
        BucketSampler(LENGTHS, (8, 4, 2), micro_batch_sizes=(4, 2, 1), seed=3, rank=r, world_size=2)
        for r in range(2)
    ]
    together = [sorted(a + b) for a, b in zip(*(clips_of(s) for s in shares), strict=True)]
    whole = [
        sorted(a + b) for a, b in zip(clips_of(sampler)[::2], clips_of(sampler)[1::2], strict=True)
    ]
    assert together == whole
    sampler.set_position(0, 4)
    assert list(sampler) == pieces[8:]


def test_a_share_of_the_frames_is_taken_evenly_from_a_drawn_place_on():
    numbers = np.arange(8, dtype=np.float32)[:, None, None]
    clips = make_set([Sample(numbers, np.ones((8, 1), bool), 0)] * 2, ["a"])
    maker = dataclasses.replace(clips, time_share=0.25)
    seen = {tuple(maker[Draw(0, epoch)].inputs[0].flatten().tolist()) for epoch in range(40)}
    assert seen == {(start, start + 4) for start in range(4)}
    assert maker[Draw(0, 3)].inputs[0].equal(maker[Draw(0, 3)].inputs[0])
    assert share_of([1, 2, 5, 30], 0.25).tolist() == [1, 1, 1, 8]
    halved = dataclasses.replace(
        clips, augment=lambda points, mask, _: (points * 2, mask), time_share=0.5
    )
    assert halved[Draw(0)].inputs[0].flatten().diff().tolist() == [4, 4, 4]


def test_a_rank_without_a_clip_fills_up_with_one_that_does_not_count():
    sampler = BucketSampler(np.array([5, 6, 7]), [2], shuffle=False, rank=1, world_size=2)
    sampler.set_position(4)
    assert list(sampler) == [[Draw(1, 4)], [Draw(2, 4, 0.0)]]
    first = BucketSampler(np.array([5, 6, 7]), [2], shuffle=False, rank=0, world_size=2)
    assert list(first) == [[Draw(0)], [Draw(2)]]


def test_a_seed_gives_the_same_order_in_every_version():
    """A training that goes on with a newer version sees every clip once in its epoch."""
    lengths = np.arange(11)[::-1] * 2
    sampler = BucketSampler(lengths, [3], seed=5, bucket_batches=2)
    sampler.set_position(2)
    assert clips_of(sampler) == [[3, 2, 0], [10, 9, 8], [6, 5, 4], [7, 1]]


@pytest.mark.parametrize(("world", "micro"), [(1, 3), (2, 8), (3, 2), (5, 1)])
def test_ranks_and_micro_batches_share_the_same_steps(world, micro):
    whole = clips_of(BucketSampler(LENGTHS, [8], seed=3))
    ranks = [
        BucketSampler(LENGTHS, [8], seed=3, rank=rank, world_size=world, micro_batch_sizes=[micro])
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
    skipped = sum(ranks[0].num_micro_batches(step) for step in range(3))
    ranks[0].set_position(0, 3)
    assert list(ranks[0]) == parts[0][skipped:], "from where it was"


def test_nothing_to_draw_from_is_refused():
    with pytest.raises(ValueError, match="expected clips and a batch of 1 or more, got 0 clips"):
        BucketSampler(np.zeros(0, np.int64), [8])
    with pytest.raises(ValueError, match=r"got 53 clips, batches \[0\]"):
        BucketSampler(LENGTHS, [0])
    assert BucketSampler(LENGTHS, [1]).num_steps == 53


@pytest.mark.parametrize("num_workers", [0, 2])
def test_augmentation_does_not_depend_on_workers_or_batches(num_workers):
    samples = [
        Sample(RNG.random((n, 4, 2)).astype(np.float32), RNG.random((n, 4)) > 0.1, 0)
        for n in LENGTHS[:12]
    ]
    amounts = AugmentationSettings(rotate=20, noise=0.1, time_warp=0.3)
    maker = dataclasses.replace(make_set(samples, "a"), augment=Augment(amounts), seed=5)
    config = TrainConfig(batch_size=4, micro_batch=4, seed=1, workers=num_workers)
    seen, state = {}, torch.get_rng_state()
    for batch in EpochLoader(maker, config, Runtime(), shuffle=True).batches(3, 4):
        for row, clip in enumerate(batch.indices.tolist()):
            seen[clip] = batch.inputs[0][row, : batch.lengths[row]]
    assert sorted(seen) == list(range(12))
    assert torch.equal(torch.get_rng_state(), state), "the model draws from it"
    for clip, points in seen.items():
        alone = maker.__getitems__([Draw(clip, 3)])
        torch.testing.assert_close(points, alone.inputs[0][0], rtol=0, atol=0)
        assert not torch.equal(maker[Draw(clip, 4)].inputs[0], alone.inputs[0])


def test_padding_is_the_share_of_frames_that_only_fill_up():
    lengths = np.array([10, 20, 10, 20])
    sampler = BucketSampler(lengths, [2], shuffle=False)
    assert sampler.padding_share() == 0  # 10 with 10, 20 with 20
    mixed = BucketSampler(lengths, [2], shuffle=False, bucket_batches=0)
    assert mixed.padding_share() == pytest.approx(20 / 80)
    assert BucketSampler(lengths, [4], shuffle=False, micro_batch_sizes=[2]).padding_share() == 0
    assert BucketSampler(lengths, [4], shuffle=False).padding_share() == pytest.approx(20 / 80)
