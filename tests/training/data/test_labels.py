from __future__ import annotations

import numpy as np
import pytest

from posemill.errors import ConfigError, TrainingError
from posemill.training.data.labels import LabelledClip, divide, name_classes, targets_of
from posemill.training.data.options import DataOptions


def clips(*labels: str, split: str = "train") -> list[LabelledClip]:
    return [
        LabelledClip(split, 0, index, f"{split}{index}", label)
        for index, label in enumerate(labels)
    ]


def test_classes_are_of_the_training_clips_numbers_first_and_by_size() -> None:
    rows = [*clips("10", "b", "9", "a", "9"), *clips("z", split="test")]
    assert name_classes(rows, "classify") == ("9", "10", "a", "b")
    with pytest.raises(TrainingError, match=r"only one class in the training clips \('a'\)"):
        name_classes(clips("a", "a"), "classify")


def test_glosses_come_after_blank_and_unknown() -> None:
    names = name_classes(clips("RAIN SUN", "SUN"), "ctc")
    assert names == ("<blank>", "<unk>", "RAIN", "SUN")
    (found,) = targets_of(clips("SUN SNOW RAIN"), names, "ctc")
    np.testing.assert_array_equal(found, [3, 1, 2])


def test_a_class_the_training_clips_do_not_have_is_an_error() -> None:
    assert targets_of(clips("b", "a"), ("a", "b"), "classify") == (1, 0)
    with pytest.raises(TrainingError, match=r"label 'c' of test clip 'test0' is not among the 2"):
        targets_of(clips("c", split="test"), ("a", "b"), "classify")


def test_clips_of_no_split_train_and_a_dev_share_is_taken_once() -> None:
    rows = clips(*"aabb" * 5, split="all")
    options = DataOptions("x", dev_fraction=0.2)
    divided = divide(rows, options)
    assert [row.split for row in divided].count("dev") == 4
    assert {row.split for row in divided} == {"train", "dev"}
    assert divide(divided, options) == divided, "there is a dev split already"


def test_a_fold_is_tested_and_the_rest_trained_on() -> None:
    rows = clips(*"aabb" * 3)
    tested = [
        {row.clip_id for row in divide(rows, DataOptions("x", folds=3, fold=fold))
         if row.split == "test"}
        for fold in range(3)
    ]  # fmt: skip
    assert [len(ids) for ids in tested] == [4, 4, 4]
    assert len(set().union(*tested)) == 12


def test_a_share_for_dev_is_taken_where_nobody_said_how_large_and_not_from_folds() -> None:
    rows = clips(*"aabb" * 10, split="all")
    divided = divide(rows, DataOptions("x", dev_fraction=None))
    chosen = [row.label for row in divided if row.split == "dev"]
    assert (chosen.count("a"), chosen.count("b")) == (3, 3)
    assert divided == divide(rows, DataOptions("x", dev_fraction=None)), "seeded"
    assert divided != divide(rows, DataOptions("x", dev_fraction=None, split_seed=1))
    folds = divide(rows, DataOptions("x", dev_fraction=None, folds=3))
    assert {row.split for row in folds} == {"train", "test"}
    assert {row.split for row in divide(rows, DataOptions("x", dev_fraction=0.0))} == {"train"}


def people() -> list[LabelledClip]:
    said = [("ann", "a"), ("ann", "b"), ("bo", "a"), ("bo", "b"), ("bo", "c")]
    return [
        LabelledClip("dev", 0, index, f"{who}{index}", label, who)
        for index, (who, label) in enumerate(said)
    ]


def test_the_clips_of_one_group_are_tested_and_all_others_trained_on() -> None:
    divided = divide(people(), DataOptions("x", leave_out="signer = ann", dev_fraction=None))
    assert [row.split for row in divided] == ["test", "test", "train", "train", "train"]


def test_a_label_that_only_the_left_out_group_has_is_not_scored_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    divided = divide(people(), DataOptions("x", leave_out="signer=bo"))
    assert "signer bo: 1 clips with labels that no other signer has are not" in caplog.text
    assert [row.label for row in divided if row.split == "test"] == ["a", "b"]
    glosses = divide(people(), DataOptions("x", leave_out="signer=bo", task="ctc"))
    assert [row.label for row in glosses if row.split == "test"] == ["a", "b", "c"], "as <unk>"


@pytest.mark.parametrize("given", ["signer=cy", "signer"])
def test_a_group_that_is_not_there_is_refused_with_those_that_are(given: str) -> None:
    message = rf"leave_out: expected signer=VALUE .* \(ann, bo\), got '{given}'"
    with pytest.raises(ConfigError, match=message):
        divide(people(), DataOptions("x", leave_out=given))
