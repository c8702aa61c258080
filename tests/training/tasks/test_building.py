"""What is wrong with the data is said before anything is computed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.errors import PosemillError, TrainingError
from posemill.training.config.train_config import TrainConfig, open_augmentation
from posemill.training.front import train
from posemill.training.tasks.workload import build_workload


@pytest.fixture
def data(clips_folder, tmp_path):
    """A copy of the clips that a test may spoil."""
    return Path(shutil.copytree(clips_folder, tmp_path / "data"))


def refused(fields: dict[str, Any], error: type[PosemillError], message: str) -> None:
    with pytest.raises(error, match=message):
        train(fields)
    assert not (Path(fields["out"]) / "checkpoints").exists()


def test_a_clip_is_shown_as_its_file_has_it(settings, data):
    with np.load(data / "dev_keypoints.npz") as arrays:
        points, ids = arrays["keypoints"].copy(), arrays["video_ids"]
    points[ids == "dev3"] *= 5
    points[np.flatnonzero(ids == "dev3")[0], 2] = 0
    np.savez(data / "dev_keypoints.npz", keypoints=points, video_ids=ids)
    config = TrainConfig(**settings(data=str(data), normalize="whole"))
    split = build_workload(config).val
    picture = split.picture(3)
    clip_id, (shown, mask) = picture.clip_id, picture.points
    assert clip_id == "dev3"
    np.testing.assert_array_equal(shown, points[ids == "dev3"])
    assert not mask[0, 2].any()
    assert mask.sum() == mask.size - 1


@pytest.mark.parametrize("name", ["val", "valid", "Validation"])
def test_a_split_by_another_of_its_names_is_scored_and_chooses(settings, data, name):
    (data / "dev_keypoints.npz").rename(data / f"{name}_keypoints.npz")
    text = (data / "labels.csv").read_text().replace(",dev", f",{name}")
    (data / "labels.csv").write_text(text)
    for asked in ("dev", "validation"):
        fields = settings(data=str(data), labels=str(data / "labels.csv"), val_split=asked)
        val = build_workload(TrainConfig(**fields)).val
        assert len(val) == 8


@pytest.mark.parametrize("field", ["val_split", "test_split"])
def test_a_split_that_is_asked_for_and_not_there_is_an_error(settings, field):
    message = f'{field}="misspelt": .* has clips of train, dev, test only; name one'
    refused(settings(**{field: "misspelt"}), TrainingError, message)


def test_what_is_left_open_is_decided_by_the_task_and_the_data(settings):
    def augment_of(**changes: Any) -> Any:
        batches: Any = build_workload(TrainConfig(**settings(**changes))).train
        return batches.augment and batches.augment.amounts

    assert augment_of() is None, "numbers as they are are not turned"
    usual = augment_of(normalize="whole")
    assert (usual.rotate, usual.scale, usual.noise) == (10.0, 0.1, 0.02)
    assert (usual.time_warp, usual.crop, usual.mirror) == (0.2, 0.1, 0.0)
    assert (usual.joint_dropout, usual.part_dropout) == (0.0, 0.0)
    given = augment_of(normalize="whole", augment_rotate=0.0, augment_crop=0.3)
    assert (given.rotate, given.scale, given.crop) == (0.0, 0.1, 0.3)
    config = TrainConfig(**settings(normalize="whole", augment_crop=0.3))
    decided = build_workload(config).decided
    assert decided["augment_rotate"] == (10.0, "usual for task classify, normalize whole")
    assert "augment_crop" not in decided
    assert open_augmentation(TrainConfig(task="ctc"))["augment_time_warp"] == 0.0
