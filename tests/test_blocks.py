import numpy as np

from posemill.blocks import join_clips, join_stream
from posemill.records import PoseClip


def make_clip(clip_id, frames, *, split="train", points=143):
    values = np.random.default_rng(frames).uniform(size=(frames, points, 3)).astype(np.float32)
    values[::3, 5] = np.nan
    scores = np.where(np.isnan(values[..., 0]), 0, 0.5).astype(np.float32)
    name = {143: "holistic-143", 543: "holistic-543"}[points]
    sizes = np.full((frames, 2), 100, np.int32)
    return PoseClip(values, scores, sizes, name, clip_id=clip_id, split=split)


def test_blocks_end_when_they_are_full_and_where_the_split_or_the_skeleton_changes(monkeypatch):
    monkeypatch.setattr("posemill.blocks.BLOCK_FRAMES", 10)
    clips = [make_clip("a", 4), make_clip("b", 7), make_clip("c", 1), make_clip("d", 30),
             make_clip("e", 2), make_clip("f", 2, split="dev"),
             make_clip("g", 2, split="dev", points=543)]  # fmt: skip
    blocks = list(join_stream(iter(clips)))
    assert [[clip.clip_id for clip in block.clips] for block in blocks] == [
        ["a", "b"], ["c", "d"], ["e"], ["f"], ["g"]]  # fmt: skip
    assert [len(block) for block in blocks] == [11, 31, 2, 2, 2]
    assert [block.split for block in blocks] == ["train", "train", "train", "dev", "dev"]
    assert list(join_stream(iter([]))) == []


def test_a_block_holds_the_rows_of_its_clips_in_order_also_in_another_layout():
    clips = [make_clip("a", 3), make_clip("none", 0), make_clip("b", 5)]
    block = join_clips(clips)
    assert block.lengths.tolist() == [3, 0, 5]
    np.testing.assert_array_equal(block.frames.points[3:], clips[2].points)
    np.testing.assert_array_equal(block.frames.frame_indices, [0, 1, 2, 0, 1, 2, 3, 4])
    expected = np.nan_to_num(np.concatenate([clips[0].points, clips[2].points]))
    np.testing.assert_array_equal(block.zeroed, expected)
    clips = [make_clip("a", 3, points=543), make_clip("b", 5, points=543)]
    block = join_clips(clips).as_skeleton("holistic-143")
    assert block.frames.skeleton_name == "holistic-143"
    for got, clip in zip(block.clips, clips, strict=True):
        expected = clip.as_skeleton("holistic-143")
        assert (got.clip_id, got.skeleton_name) == (clip.clip_id, "holistic-143")
        np.testing.assert_array_equal(got.points, expected.points)
        np.testing.assert_array_equal(got.scores, expected.scores)
