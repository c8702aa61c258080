from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from posemill.errors import ConfigError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.labels import assign_group_folds
from posemill.training.front import train
from posemill.training.tasks.workload import build_workload

SIGNERS = "abcd"


def write_clips(folder: Path, *, copied: int = 0, noise: float = 0.0, column: str = "") -> Any:
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


def leaks_of(settings: dict[str, Any]) -> list[str]:
    return build_workload(TrainConfig(**settings)).find_leaks()


def test_healthy_clips_are_not_suspected(tmp_path):
    assert leaks_of(write_clips(tmp_path / "clips")) == []
    assert leaks_of(write_clips(tmp_path / "one", copied=1, noise=0.05)) == [], "one may be chance"


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


def test_clips_nearly_the_same_are_counted(tmp_path):
    (said,) = leaks_of(write_clips(tmp_path / "clips", copied=5, noise=0.05))
    assert said.startswith(
        "5 of 12 dev clips looked at are nearly the same as a training clip, as clips recorded at "
        'once are: scores of dev flatter; leave_out="COLUMN", with'
    )


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
