import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from posemill.errors import TrainingError
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe
from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter
from posemill.training.data.torch_data import KeypointDataset, pad_clips


def make_clip(seed, *, frames=5, split="train"):
    points = np.random.default_rng(seed).uniform(0.1, 0.9, (frames, 18, 3)).astype(np.float32)
    points[0, 4] = np.nan
    scores = np.where(np.isnan(points[..., 0]), 0, 0.5).astype(np.float32)
    sizes = np.full((frames, 2), 10, np.int32)
    return PoseClip(points, scores, sizes, "openpose-18", f"clip_{seed}", split, label=f"L{seed}")


CLIPS = [make_clip(1), make_clip(2, frames=3), make_clip(3, split="dev")]


@pytest.fixture(params=["npz", "run"])
def path(request, tmp_path):
    if request.param == "npz":
        get_format("npz").write(CLIPS, tmp_path / "a.npz", recipe=Recipe())
        return tmp_path / "a.npz"
    with RunWriter(tmp_path / "run", Manifest("openpose-18")) as writer:
        for clip in CLIPS:
            writer.add(clip)
    return tmp_path / "run"


def test_items_are_the_clips_of_a_split_and_batches_are_padded(path):
    data = KeypointDataset(path)
    assert len(data) == 3
    assert "3 clips" in repr(data)
    for item, clip in zip((data[i] for i in range(3)), CLIPS, strict=True):
        np.testing.assert_array_equal(item["points"].numpy(), np.nan_to_num(clip.points))
        np.testing.assert_array_equal(item["mask"].numpy(), clip.mask)
        np.testing.assert_array_equal(item["scores"].numpy(), clip.scores)
        assert item["frame_index"].tolist() == list(range(len(clip)))
        assert (item["clip_id"], item["split"], item["label"]) == (
            clip.clip_id, clip.split, clip.label)  # fmt: skip
    some = KeypointDataset(path, split="dev", transform=lambda item: item["points"] * 2)
    assert len(some) == 1
    np.testing.assert_allclose(some[0].numpy(), np.nan_to_num(CLIPS[2].points) * 2)
    with pytest.raises(TrainingError, match=r"no clips of split 'tset'; it has dev, train"):
        KeypointDataset(path, split="tset")
    batch = next(iter(DataLoader(data, batch_size=2, collate_fn=pad_clips)))
    assert batch["points"].shape == (2, 5, 18, 3)
    assert batch["lengths"].tolist() == [5, 3]
    assert not batch["mask"][1, 3:].any()
    assert batch["frame_index"][1].tolist() == [0, 1, 2, -1, -1]
    assert batch["label"] == ["L1", "L2"]


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.usefixtures("warm_children")
def test_loader_workers_read_the_same(path, start):
    if start == "spawn" and path.suffix == ".npz":
        pytest.skip("one spawned loader is enough: a run is the harder case")
    data = KeypointDataset(path)
    first = data[0]["points"]  # opened here before the workers exist
    loader = DataLoader(data, batch_size=1, num_workers=1, collate_fn=pad_clips,
                        multiprocessing_context=start)  # fmt: skip
    batches = list(loader)
    assert [batch["clip_id"][0] for batch in batches] == ["clip_1", "clip_2", "clip_3"]
    assert torch.equal(batches[0]["points"][0], first)


def test_a_file_of_another_maker_is_read_as_it_is(tmp_path):
    ids = np.array(["a", "a", "b"])
    np.savez(tmp_path / "dev_keypoints.npz", keypoints=np.ones((3, 5, 4), np.int16), video_ids=ids)
    data = KeypointDataset(tmp_path / "dev_keypoints.npz")
    assert [data[index]["clip_id"] for index in range(len(data))] == ["a", "b"]
    assert data.lengths == [2, 1]
    assert data[0]["split"] == "dev"
    assert data[0]["points"].dtype == torch.float32
    assert data[0]["points"].shape == (2, 5, 4)
    assert data[1]["scores"].tolist() == [[1.0] * 5]
