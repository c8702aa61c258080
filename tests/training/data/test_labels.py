from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import ConfigError, TrainingError
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.annotations import Annotation, Annotations
from posemill.training.data.labels import (
    LabelledClip,
    divide,
    divide_into_splits,
    label_clips,
    name_classes,
    targets_of,
)
from posemill.training.data.readers import RawClips

as_they_are = partial(DataSettings, num_dims=0, dev_fraction=0.0)


def clips(*labels: str, split: str = "train") -> list[LabelledClip]:
    return [
        LabelledClip(split, 0, index, f"{split}{index}", label)
        for index, label in enumerate(labels)
    ]


def raw(*ids: str, labels: tuple[str, ...] = (), splits: tuple[str, ...] = ()) -> RawClips:
    empty = ("",) * len(ids)
    return RawClips(
        np.ones((len(ids), 2, 2), np.float32), None, np.arange(len(ids) + 1), ids, labels or empty,
        splits or empty, None, "key", Path("a.csv"),
    )  # fmt: skip


def test_clips_have_the_labels_and_the_splits_of_their_files() -> None:
    files = [raw("a", "b", labels=("x", "y"), splits=("", "val")), raw("c", labels=("z",))]
    assert label_clips(["train", "test"], files, None) == [
        LabelledClip("train", 0, 0, "a", "x"),
        LabelledClip("dev", 0, 1, "b", "y"),
        LabelledClip("test", 1, 0, "c", "z"),
    ]


def test_annotations_say_more_than_the_files() -> None:
    known = Annotations({"a": Annotation("new"), "b": Annotation("new", "test")}, Path("l.csv"))
    files = [raw("a", "b", "c", labels=("old",) * 3, splits=("dev", "dev", ""))]
    found = label_clips(["train"], files, known)
    assert [(row.label, row.split) for row in found] == [
        ("new", "dev"), ("new", "test"), ("old", "train"),
    ]  # fmt: skip


def test_clips_without_a_label_are_counted_and_named() -> None:
    head = r"^3 of 4 clips have no label \(b, c, d\): "
    files = [raw("a", "b", "c", "d", labels=("x", "", "", ""))]
    with pytest.raises(
        TrainingError,
        match=head + r".* has none in a column label, and a labels file \(labels\) needs a row"
        r'.* the run x\.run beside x\.pkl does: .* labels="DATASET"',
    ):
        label_clips(["train"], files, None)
    known = Annotations({"z": Annotation("q")}, Path("l.csv"))
    with pytest.raises(TrainingError, match=head + r"l.csv \(its first id is 'z'\) needs a row"):
        label_clips(["train"], files, known)
    with pytest.raises(TrainingError, match=r"^4 of 4 clips have no label \(a, b, c …\): "):
        label_clips(["train"], [raw("a", "b", "c", "d")], None)
    with pytest.raises(TrainingError, match=r"^a.csv: no clips$"):
        label_clips(["train"], [raw()], None)


def test_sentences_are_divided_by_their_number_alone() -> None:
    rows = clips(*(f"ONE TWO {index}" for index in range(20)))  # no two the same
    chosen = divide(rows, as_they_are("x", task="ctc", dev_fraction=0.2))
    assert [row.split for row in chosen].count("dev") == 4
    tested = divide(rows, as_they_are("x", task="ctc", folds=4, fold=1))
    labelled = divide(rows, as_they_are("x", folds=4, fold=1))
    assert [row.split for row in tested].count("test") == 5
    assert [row.split for row in tested] != [row.split for row in labelled]


def test_classes_are_of_the_training_clips_numbers_first_and_by_size() -> None:
    rows = [*clips("10", "b", "9", "a", "9"), *clips("z", split="test")]
    assert name_classes(rows, "train", "classify") == ("9", "10", "a", "b")
    with pytest.raises(TrainingError, match=r"only one class in the training clips \('a'\)"):
        name_classes(clips("a", "a"), "train", "classify")


def test_glosses_come_after_blank_and_unknown() -> None:
    names = name_classes(clips("RAIN SUN", "SUN"), "train", "ctc")
    assert names == ("<blank>", "<unk>", "RAIN", "SUN")
    (found,) = targets_of(clips("SUN SNOW RAIN"), names, "ctc")
    np.testing.assert_array_equal(found, [3, 1, 2])


def test_a_class_the_training_clips_do_not_have_is_an_error() -> None:
    assert targets_of(clips("b", "a"), ("a", "b"), "classify") == (1, 0)
    with pytest.raises(TrainingError, match=r"label 'c' of test clip 'test0' is not among the 2"):
        targets_of(clips("c", split="test"), ("a", "b"), "classify")


def test_clips_of_no_split_train_and_a_dev_share_is_taken_once() -> None:
    rows = clips(*"aabb" * 5, split="all")
    options = as_they_are("x", dev_fraction=0.2)
    divided = divide(rows, options)
    assert [row.split for row in divided].count("dev") == 4
    assert {row.split for row in divided} == {"train", "dev"}
    assert divide(divided, options) == divided, "there is a dev split already"


def test_a_fold_is_tested_and_the_rest_trained_on() -> None:
    rows = clips(*"aabb" * 3)
    tested = [
        {row.clip_id for row in divide(rows, as_they_are("x", folds=3, fold=fold))
         if row.split == "test"}
        for fold in range(3)
    ]  # fmt: skip
    assert [len(ids) for ids in tested] == [4, 4, 4]
    assert len(set().union(*tested)) == 12


def test_a_share_for_dev_is_taken_where_nobody_said_how_large_and_not_from_folds() -> None:
    rows = clips(*"aabb" * 10, split="all")
    divided = divide(rows, as_they_are("x", dev_fraction=None))
    chosen = [row.label for row in divided if row.split == "dev"]
    assert (chosen.count("a"), chosen.count("b")) == (3, 3)
    assert divided == divide(rows, as_they_are("x", dev_fraction=None)), "seeded"
    assert divided != divide(rows, as_they_are("x", dev_fraction=None, split_seed=1))
    folds = divide(rows, as_they_are("x", dev_fraction=None, folds=3))
    assert {row.split for row in folds} == {"train", "test"}
    assert {row.split for row in divide(rows, as_they_are("x", dev_fraction=0.0))} == {"train"}


def people() -> list[LabelledClip]:
    said = [("ann", "a"), ("ann", "b"), ("bo", "a"), ("bo", "b"), ("bo", "c")]
    return [
        LabelledClip("dev", 0, index, f"{who}{index}", label, who)
        for index, (who, label) in enumerate(said)
    ]


def test_the_clips_of_one_group_are_tested_and_all_others_trained_on() -> None:
    divided = divide(people(), as_they_are("x", leave_out="signer = ann", dev_fraction=None))
    assert [row.split for row in divided] == ["test", "test", "train", "train", "train"]


def test_a_label_that_only_the_left_out_group_has_is_not_scored_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    divided = divide(people(), as_they_are("x", leave_out="signer=bo"))
    assert "signer bo: 1 clips with labels that no other signer has are not" in caplog.text
    assert [row.label for row in divided if row.split == "test"] == ["a", "b"]
    glosses = divide(people(), as_they_are("x", leave_out="signer=bo", task="ctc"))
    assert [row.label for row in glosses if row.split == "test"] == ["a", "b", "c"], "as <unk>"


@pytest.mark.parametrize("given", ["signer=cy", "signer"])
def test_a_group_that_is_not_there_is_refused_with_those_that_are(given: str) -> None:
    message = rf"leave_out: expected signer=VALUE .* \(ann, bo\), got '{given}'"
    with pytest.raises(ConfigError, match=message):
        divide(people(), as_they_are("x", leave_out=given))


def test_any_split_may_be_the_one_to_learn_from() -> None:
    rows = [
        LabelledClip(split, 0, number, f"{split}{number}", label)
        for split, labels in (("trainval", "abab"), ("test", "ab"), ("train", "xy"))
        for number, label in enumerate(labels)
    ]
    options = DataSettings("x", train_split="trainval", dev_fraction=0.5)
    found = divide_into_splits(rows, options)
    assert found.class_names == ("a", "b"), "not those of train"
    assert {split: len(clips) for split, clips in found.members.items() if split != "train"} == {
        "trainval": 2, "dev": 2, "test": 2,
    }  # fmt: skip
    bare = [dataclasses.replace(row, split="all") for row in rows[:4]]
    assert {row.split for row in divide(bare, DataSettings("x", train_split="trainval", folds=2))
            } == {"trainval", "test"}  # fmt: skip
