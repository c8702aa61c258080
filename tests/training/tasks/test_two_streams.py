import json

import cv2
import numpy as np
import pytest
import torch
from small_sets import QUIET, WAYS, write_bars

from posemill import predict
from posemill.errors import ConfigError, TrainingError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs import landmarks
from posemill.training.config.resolve import with_data_kind
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.loaders import open_loader
from posemill.training.front import train
from posemill.training.models import build_model
from posemill.training.runs.inference import evaluate
from posemill.training.runtime import Runtime
from posemill.training.tasks.two_stream_kind import match_clips
from posemill.training.tasks.workload import build_workload

NUM_CLIPS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Videos in a list, and keypoints of all but clip 1 and clip 9, in another order, and of one
    clip more."""
    folder = tmp_path_factory.mktemp("streams")
    write_bars(folder, 8, 4)
    points, ids = [], []
    for number in [20, *reversed(range(NUM_CLIPS))]:
        if number not in (1, 9):
            height = np.linspace(0.1, 0.9, 5) if number % 2 else np.linspace(0.9, 0.1, 5)
            points.append(np.stack([np.full((5, 3), number), height[:, None] + np.zeros(3)], -1))
            ids += [f"clip{number}"] * 5
    np.savez(folder / "all.npz", keypoints=np.concatenate(points).astype(np.float32), video_ids=ids)
    return folder


def settings(folder, **changes):
    return {
        "data": [str(folder / "all.npz"), str(folder / "videos.csv")],
        "cache_folder": str(folder / "cache"),
        "normalize": "none",
        "batch_size": 4,
        "model_options": {"keypoint_options": {"width": 16}},
        "video": {"sampling": "segments:4", "size": 32},
        **changes,
    }


def test_batches_hold_the_same_clips_in_both_streams(folder):
    config = with_data_kind(TrainConfig(**settings(folder)))
    assert config.model.name == "two_streams"
    assert TrainConfig(data={"path": settings(folder)["data"]}).data.path == config.data.path
    workload = build_workload(config)
    assert len(workload.train) == 7
    notes = " ".join(workload.notes)
    assert "2 clips are not in" in notes
    assert "all.npz and left out, the first is 'clip1'" in notes
    assert "1 clip is not in" in notes
    assert "videos.csv and left out, the first is 'clip20'" in notes
    batch = workload.val.__getitems__([Draw(clip) for clip in range(3)])
    # clips 8, 10 and 11: the number of a clip is the x of its points
    assert batch.inputs[0][0][:, 0, 0, 0].tolist() == [8, 10, 11]
    assert batch.targets.tolist() == [0, 0, 1]
    assert batch.inputs[1][0].shape == (3, 4, 32, 32, 3)
    assert batch.to("cpu").weights.tolist() == [1, 1, 1]
    first = batch.inputs[1][0][:, 0].float().mean((2, 3))  # brightness of rows
    assert [WAYS[int(row.argmax() >= 16)] for row in first] == ["falls", "falls", "rises"]
    with torch.no_grad():
        assert workload.task.call(workload.model, batch).shape == (3, 2)


@pytest.fixture
def same_names(folder, tmp_path):
    """Clips 001 to 004 of train and of dev: the x of dev's points is 10 more."""
    for split, first in (("train", 0), ("dev", 8)):
        points, ids = [], []
        for number in range(4):
            target = tmp_path / "videos" / split / WAYS[number % 2] / f"00{number // 2}.mp4"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((folder / f"clip{first + number}.mp4").read_bytes())
            x = number + 10 * (split == "dev")
            points.append(np.stack([np.full((number + 3, 3), x), np.ones((number + 3, 3))], -1))
            ids += [f"{WAYS[number % 2]}/00{number // 2}"] * (number + 3)
        (tmp_path / "points").mkdir(exist_ok=True)
        np.savez(
            tmp_path / "points" / f"{split}_keypoints.npz",
            keypoints=np.concatenate(points).astype(np.float32),
            video_ids=ids,
        )
    return [str(tmp_path / "points"), str(tmp_path / "videos")]


def test_clips_with_the_same_id_in_two_splits_are_told_apart(folder, same_names):
    config = TrainConfig(**settings(folder, data=same_names, augment_rotate=0, augment_scale=0,
                                    augment_noise=0, augment_time_warp=0, augment_crop=0)
                         )  # fmt: skip
    workload = build_workload(config)
    for split, first in ((workload.train, 0), (workload.val, 10)):
        batch = split.__getitems__([Draw(clip) for clip in range(4)])
        assert sorted(batch.inputs[0][0][:, 0, 0, 0].tolist()) == [
            first, first + 1, first + 2, first + 3,
        ]  # fmt: skip
        for index in range(4):
            picture = split.picture(index)
            assert split.keys[index][1] == picture.clip_id
            if split is workload.val:  # training clips are drawn from
                frames = torch.from_numpy(picture.frames)
                assert torch.equal(batch.inputs[1][0][index], frames), "the clip that was scored"
    assert not [note for note in workload.notes if "left out" in note]
    # Batches are padded by what differs in length.
    loader = open_loader(workload.train, config, Runtime(), shuffle=True)
    assert loader.padding_share() == pytest.approx(1 - (3 + 4 + 5 + 6) / (4 * 6))


def test_an_id_alone_joins_only_what_leaves_no_doubt():
    both = [("train", "a"), ("dev", "a")]
    assert match_clips(both, [("dev", "a"), ("train", "a")]) == {both[0]: 1, both[1]: 0}
    assert match_clips(both, [("all", "a")]) == {}, "whose keypoints are these?"
    assert match_clips([("dev", "a")], [("all", "a")]) == {("dev", "a"): 0}
    assert match_clips([("dev", "a")], both) == {("dev", "a"): 1}
    assert match_clips([("all", "a")], both) == {}


def test_a_clip_whose_video_is_broken_is_left_out_of_both(folder, tmp_path):
    for path in folder.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "clip10.mp4").write_bytes(b"no video")
    workload = build_workload(TrainConfig(**settings(tmp_path)))
    batch = workload.val.__getitems__([Draw(clip) for clip in range(3)])
    assert batch.inputs[0][0][:, 0, 0, 0].tolist() == [8, 11]
    assert batch.indices.tolist() == [0, 2]


def test_late_fusion_is_the_weighted_mean_of_both_answers():
    torch.manual_seed(0)
    sizes = {"num_points": 4, "num_dims": 2, "num_classes": 3, "num_frames": 2}
    model = build_model("two_streams", **sizes, keypoint_share=0.25).eval()
    keypoints = (torch.randn(2, 5, 4, 2), torch.ones(2, 5, 4) > 0, torch.tensor([5, 3]))
    frames = (torch.randn(2, 2, 3, 32, 32), torch.tensor([2, 2]))
    expected = 0.25 * model.keypoints(*keypoints) + 0.75 * model.video(*frames)
    torch.testing.assert_close(model(keypoints, frames), expected)
    model(keypoints, frames).square().sum().backward()
    assert not [key for key, weight in model.named_parameters() if weight.grad is None]


def test_it_is_trained_and_evaluated_and_looks_at_new_videos_in_both_streams(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())
    points = np.random.default_rng(0).random((NUM_CLIPS * 5, 143, 2)).astype(np.float32)
    ids = [f"clip{number}" for number in range(NUM_CLIPS) for _ in range(5)]
    np.savez(tmp_path / "points.npz", keypoints=points, video_ids=ids)
    data = [str(tmp_path / "points.npz"), str(folder / "videos.csv")]
    result = train(settings(folder, data=data, out=str(tmp_path / "run"), epochs=1, **QUIET))
    scores = evaluate(tmp_path / "run", split="dev")
    assert scores["accuracy"] == pytest.approx(result.scores["dev"]["accuracy"])
    videos = [folder / "clip0.mp4", folder / "clip5.mp4"]
    said = predict(tmp_path / "run", videos, pictures=tmp_path / "pictures")
    assert [each.clip_id for each in said] == ["clip0", "clip5"]
    assert {each.label for each in said} <= set(WAYS)
    drawn = sorted((tmp_path / "pictures").glob("*.png"))
    assert [path.name for path in drawn] == ["clip0.png", "clip5.png"]
    assert all(cv2.imread(str(path)).std() > 1 for path in drawn)
    with pytest.raises(ConfigError, match=r"clip0\.png is a file that posemill did not write"):
        predict(tmp_path / "run", videos[:1], pictures=tmp_path / "pictures")
    facts = json.loads((tmp_path / "run" / "run.json").read_text()) | {"skeleton_name": None}
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    with pytest.raises(ConfigError, match="was trained on a skeleton posemill does not know"):
        predict(tmp_path / "run", videos)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": ["a", "b", "c"]}, "data: expected one path, or keypoints and videos of the same"),
        ({"data": ["videos.csv", "videos.csv"]}, "data: expected keypoints and videos of the same "
         "clips, got .* which are video and video"),
        ({"task": "ctc"}, "two streams give one answer a clip: task ctc needs one"),
        ({"model": "tsm", "model_options": {}}, "model tsm takes video, and .* is two_streams"),
        ({"model_options": {"video_modell": "tsn"}}, "model two_streams has no option "
         "'video_modell'.*did you mean 'video_model'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(folder, changes, message):
    if "data" in changes:
        changes = {"data": [str(folder / name) for name in changes["data"]]}
    with pytest.raises(ConfigError, match=message):
        build_workload(TrainConfig(**settings(folder, **changes)))


def test_other_clips_are_one_clear_sentence(folder, tmp_path):
    np.savez(tmp_path / "all.npz", keypoints=np.ones((2, 3, 2), np.float32), video_ids=["x", "y"])
    data = [str(tmp_path / "all.npz"), str(folder / "videos.csv")]
    with pytest.raises(TrainingError, match=r"no clip is in both .*: the first ids are 'x' and "
                       "'clip0'; extract the keypoints from the same list"):  # fmt: skip
        build_workload(TrainConfig(**settings(folder, data=data)))
