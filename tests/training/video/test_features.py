import os

import numpy as np
import pytest
import torch
from small_sets import QUIET, WAYS, write_bar, write_bars

from posemill import predict
from posemill.errors import ConfigError
from posemill.records import Clip
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.front import train
from posemill.training.models import build_model
from posemill.training.runs.inference import evaluate
from posemill.training.tasks.workload import build_workload
from posemill.training.video.index import fingerprint


@pytest.fixture
def settings(tmp_path):
    """A list of 12 videos, weights to begin with, and how to train on them."""
    torch.manual_seed(5)
    first = build_model("tsn", num_classes=2, num_frames=4)
    torch.save(first.backbone.state_dict(), tmp_path / "weights.pth")
    return {
        "data": str(write_bars(tmp_path, 8, 4)),
        "cache_folder": str(tmp_path / "cache"),
        "model": "tsn",
        "model_options": {"freeze_backbone": True, "weights": str(tmp_path / "weights.pth"),
                          "head": "gru", "head_width": 16},
        "video": {"sampling": "segments:4", "size": 32, "precompute": 2},
        "precision": "fp32",
        "batch_size": 4,
    }  # fmt: skip


def test_features_give_the_answers_that_frames_give(settings):
    answers = []
    for views in (0, 2):
        config = TrainConfig(**{**settings, "video": {**settings["video"], "precompute": views}})
        workload = build_workload(config)
        workload.model.eval()
        for split, epoch in ((workload.val, 0), (workload.train, 0), (workload.train, 1)):
            draws = [Draw(clip, epoch) for clip in (0, 3)]
            with torch.no_grad():
                batch = split.__getitems__(draws)
                answers.append(workload.task.call(workload.model, batch))
    for one, other in zip(answers[:3], answers[3:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(answers[4], answers[5])  # another draw in another epoch


def test_features_are_computed_once_for_the_same_weights_and_clips(settings, tmp_path, capsys):
    def says():
        build_workload(TrainConfig(**settings))
        return " ".join(capsys.readouterr().err.split()).count("what the backbone says")

    assert says() == 2  # train and dev
    assert says() == 0
    weights = torch.load(tmp_path / "weights.pth", weights_only=True)
    weights["conv1.weight"] += 0.01
    torch.save(weights, tmp_path / "weights.pth")
    assert says() == 2
    write_bar(tmp_path / "clip0.mp4", "falls", 99)
    assert says() == 1


def test_training_evaluation_and_prediction_go_together(settings, tmp_path):
    result = train({**settings, **QUIET, "out": str(tmp_path / "run"), "epochs": 12, "lr": 0.01})
    found = evaluate(tmp_path / "run", split="dev")
    assert found["accuracy"] == pytest.approx(result.scores["dev"]["accuracy"])
    answers = predict(tmp_path / "run", [tmp_path / f"clip{n}.mp4" for n in range(8, 12)])
    right = np.mean([row.label == label for row, label in zip(answers, 2 * WAYS, strict=True)])
    assert right == pytest.approx(found["accuracy"])


def test_a_clip_that_cannot_be_read_does_not_count(settings, tmp_path):
    (tmp_path / "clip9.mp4").write_bytes(b"no video")
    workload = build_workload(TrainConfig(**settings))
    batch = workload.val.__getitems__([Draw(clip) for clip in range(4)])
    assert batch.weights.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "tsm"}, "video_precompute=2 keeps what a frozen network says of single "
         'frames: it needs model="tsn" with the options freeze_backbone=true'),
        ({"model_options": {"weights": "none", "freeze_backbone": True}}, 'it needs model="tsn"'),
        ({"model": "r2plus1d", "model_options": {}}, 'it needs model="tsn"'),
        ({"video": {"precompute": 2, "flip": 0.5, "flip_labels": {"falls": "rises"}}},
         "video_precompute keeps the label of each clip: leave video_flip out"),
        ({"multigrid": True}, "clips of one shape: leave multigrid=True out"),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_once_is_refused(settings, change, message):
    with pytest.raises(ConfigError, match=message):
        build_workload(TrainConfig(**{**settings, **change}))


def test_a_picture_of_another_size_or_time_in_its_folder_is_another_clip(tmp_path):
    picture = tmp_path / "clip" / "0.png"
    picture.parent.mkdir()
    found = []
    for content, time in ((b"one", 1), (b"one", 1), (b"two", 2), (b"other", 2)):
        picture.write_bytes(content)
        os.utime(picture, ns=(time, time))
        found.append(fingerprint(Clip("clip", str(picture.parent), "frames")))
    assert found[0] == found[1]
    assert len(set(found)) == 3
