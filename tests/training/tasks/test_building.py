"""What is wrong with the data, or flatters scores, is said before anything is computed."""

import csv
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from small_sets import refused

from posemill.errors import ConfigError, TrainingError
from posemill.training.config.train_config import TrainConfig, open_augmentation
from posemill.training.data.labels import assign_group_folds
from posemill.training.front import train
from posemill.training.tasks.workload import build_workload


@pytest.fixture
def data(clips_folder, tmp_path):
    """A copy of the clips that a test may spoil."""
    return Path(shutil.copytree(clips_folder, tmp_path / "data"))


def test_a_clip_is_shown_as_its_file_has_it(settings, data):
    with np.load(data / "dev_keypoints.npz") as arrays:
        points, ids = arrays["keypoints"].copy(), arrays["video_ids"]
    points[ids == "dev3"] *= 5
    points[np.flatnonzero(ids == "dev3")[0], 2] = 0
    np.savez(data / "dev_keypoints.npz", keypoints=points, video_ids=ids)
    config = TrainConfig(**settings(data=str(data), normalize="whole"))
    picture = build_workload(config).val.picture(3)
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
        assert len(build_workload(TrainConfig(**fields)).val) == 8


@pytest.mark.parametrize("field", ["val_split", "test_split"])
def test_a_split_that_is_asked_for_and_not_there_is_an_error(settings, field):
    message = f'{field}="misspelt": .* has clips of train, dev, test only; name one'
    refused(settings(**{field: "misspelt"}), TrainingError, message)


def test_what_is_left_open_is_decided_by_the_task_and_the_data(settings):
    def augment_of(**changes):
        batches = build_workload(TrainConfig(**settings(**changes))).train
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


SIGNERS = "abcd"


def write_clips(folder, *, copied=0, noise=0.0, column=""):
    """48 clips of walks, 12 of them dev; some dev clips are training clips with some noise."""
    rng = np.random.default_rng(0)
    clips = [rng.normal(size=(6, 5, 2)).cumsum(0) for _ in range(48)]
    for number in range(copied):
        clips[36 + number] = clips[number] + noise * rng.normal(size=(6, 5, 2))
    folder.mkdir()
    np.savez(folder / "all.npz", keypoints=np.concatenate(clips).astype(np.float32),
             video_ids=np.repeat([f"clip{n}" for n in range(48)], 6))  # fmt: skip
    rows = [("video_id", "label", "split", column or "other")]
    rows += [(f"clip{n}", str(n % 2), "dev" if n >= 36 else "train", SIGNERS[n % 4])
             for n in range(48)]  # fmt: skip
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return {"data": str(folder / "all.npz"), "labels": str(folder / "labels.csv"),
            "normalize": "none"}  # fmt: skip


def leaks_of(settings):
    return build_workload(TrainConfig(**settings)).find_leaks()


def test_clips_nearly_the_same_are_counted_and_healthy_ones_are_not(tmp_path):
    assert leaks_of(write_clips(tmp_path / "clips")) == []
    assert leaks_of(write_clips(tmp_path / "one", copied=1, noise=0.05)) == [], "one may be chance"
    (said,) = leaks_of(write_clips(tmp_path / "five", copied=5, noise=0.05))
    assert said.startswith(
        "5 of 12 dev clips looked at are nearly the same as a training clip, as clips recorded at "
        'once are: scores of dev flatter; leave_out="COLUMN", with'
    )


def test_copies_under_two_labels_are_named(tmp_path):
    settings = write_clips(tmp_path / "clips")
    points = dict(np.load(settings["data"]))
    points["keypoints"][6:12] = points["keypoints"][18:24]  # clips 1 and 3 have the same label
    np.savez(settings["data"], **points)
    assert leaks_of(settings) == []
    points["keypoints"][24:30] = points["keypoints"][6:12]  # and clip 4 another
    np.savez(settings["data"], **points)
    assert leaks_of(settings) == [
        "3 of 36 training clips looked at are copies of one with another label, the first 'clip1' "
        "and 'clip4': one of the labels is wrong, and no model can learn both"
    ]


def test_groups_on_both_sides_are_counted_and_those_kept_apart_are_not(tmp_path):
    settings = write_clips(tmp_path / "clips", column="signer")
    (said,) = leaks_of(settings)
    assert said == (
        "12 of 12 dev clips are of a signer that training clips are of (4 of 4 values): scores of "
        'dev say little of another signer; leave_out="signer" does, or folds=4 folds_by="signer"'
    )
    labels = tmp_path / "clips" / "labels.csv"
    labels.write_text(re.sub(",[a-d]\r?$", ",a", labels.read_text(), flags=re.MULTILINE))
    assert leaks_of(settings) == [], "of one signer alone nobody can be left out"
    settings = write_clips(tmp_path / "others", column="signer")
    assert leaks_of(settings | {"leave_out": "signer=a"}) == []
    assert leaks_of(settings | {"folds": 2, "folds_by": "signer"}) == []
    (split,) = leaks_of(settings | {"folds": 2})
    assert split.startswith("24 of 24 test clips are of a signer that training clips are of")


def test_copies_of_training_clips_are_counted_in_a_note_of_the_summary(tmp_path, settings):
    given = settings(**write_clips(tmp_path / "clips", copied=3), epochs=1)
    assert train(given).summary["notes"] == [
        "3 of 12 dev clips looked at are copies of training clips: scores of dev count what was "
        "learned by heart"
    ]


def test_folds_keep_a_group_together_and_classes_even():
    groups = [name for name, count in zip("abcdef", (9, 8, 4, 4, 2, 3), strict=True)
              for _ in range(count)]  # fmt: skip
    labels = ["x" if number % 2 else "y" for number in range(30)]
    folds = assign_group_folds(labels, groups, 3, seed=1)
    by_group = {name: {int(f) for f, g in zip(folds, groups, strict=True) if g == name}
                for name in "abcdef"}  # fmt: skip
    assert all(len(found) == 1 for found in by_group.values())
    sizes = np.bincount(folds, minlength=3)
    assert sizes.max() <= 12
    assert sizes.min() >= 8
    assert folds.tolist() == assign_group_folds(labels, groups, 3, seed=1).tolist()
    with pytest.raises(ConfigError, match="folds=7: expected 2 or more, and no more than the 6"):
        assign_group_folds(labels, groups, 7, seed=0)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """24 clips of two pictures each, of four sessions; 8 of them dev, one cannot be read."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    rows = ["path,split,label,session"]
    for number in range(24):
        place = folder / f"clip{number:02d}"
        place.mkdir()
        for frame in range(2):
            colours = rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)
            picture = cv2.resize(colours, (32, 32), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(place / f"{frame}.png"), picture)
        split = "dev" if number >= 16 else "train"
        rows.append(f"{place.name},{split},label{number % 2},s{number // 4}")
    (folder / "clip20" / "0.png").write_bytes(b"no picture")
    (folder / "videos.csv").write_text("\n".join(rows))
    return folder / "videos.csv"


def test_clips_of_pixels_are_looked_at_too(pictures, tmp_path):
    settings = {"data": str(pictures), "model": "tsm", "video_sampling": "segments:2"}
    assert leaks_of(settings) == [], "sessions are apart, pictures differ"
    workload = build_workload(TrainConfig(**settings, folds=3, folds_by="session"))
    assert {len(split) for split in workload.tests.values()} == {8}
    assert workload.find_leaks() == []
    (said, *_) = leaks_of(settings | {"folds": 3})
    assert "test clips are of a session that training clips are of" in said
    rows = pictures.read_text().splitlines()
    moved = [f"{pictures.parent}/{row}" for row in rows[1:]]
    moved += [f"{pictures.parent}/clip0{n},dev,label{n % 2},s9" for n in range(2, 4)]
    (tmp_path / "list.csv").write_text("\n".join([rows[0], *moved]))
    assert leaks_of(settings | {"data": str(tmp_path / "list.csv")}) == [
        "2 of 9 dev clips looked at are copies of training clips: scores of dev count what was "
        "learned by heart"
    ]
