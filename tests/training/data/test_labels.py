import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from posemill.errors import ConfigError, TrainingError
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.labels import (
    LabelledClip,
    assign_folds,
    divide,
    divide_into_splits,
    label_clips,
    pick_share,
)

as_they_are = partial(DataSettings, num_dims=0, dev_fraction=0.0)


def clips(*labels, split="train"):
    return [
        LabelledClip(split, index, f"{split}{index}", label) for index, label in enumerate(labels)
    ]


def labelled(rows, *labels):
    return label_clips(rows, lambda name: [""] * len(rows), as_they_are("x", *labels))


def test_annotations_say_more_than_the_files(tmp_path):
    known = tmp_path / "l.csv"
    known.write_text("video_id,label,split\na,new,\nb,new,test\n")
    rows = [LabelledClip("dev", 0, "a", "old"), LabelledClip("dev", 1, "b", "old"),
            LabelledClip("train", 2, "c", "old")]  # fmt: skip
    assert labelled(rows) == rows
    assert [(row.label, row.split) for row in labelled(rows, str(known))] == [
        ("new", "dev"), ("new", "test"), ("old", "train"),
    ]  # fmt: skip


def test_clips_without_a_label_are_counted_and_named_or_left_out(tmp_path, caplog):
    head = r"^3 of 4 clips have no label \(train1, train2, train3\): "
    rows = clips("x", "", "", "")
    advice = '; posemill train missing_labels="drop" leaves these clips out$'
    with pytest.raises(TrainingError, match=head + f"x, and a labels file.*{advice}"):
        labelled(rows)
    (tmp_path / "l.csv").write_text("video_id,label\nz,q\n")
    with pytest.raises(TrainingError, match=head + r".*l.csv \(its first id is 'z'\)"):
        labelled(rows, str(tmp_path / "l.csv"))
    with pytest.raises(TrainingError, match=r"^4 of 4 clips have no label \(train0, .* …\): "):
        labelled(clips("", "", "", ""))
    in_folder = [clips("")[0]._replace(clip_id="train/wave/a")]
    row = re.escape("video_id,label for each (where folders are classes: train/wave/a,wave)") + "$"
    with pytest.raises(TrainingError, match=row):
        labelled(in_folder)
    with pytest.raises(TrainingError, match=r"^x: no clips$"):
        labelled([])
    options = as_they_are("x", missing_labels="drop")
    assert label_clips(rows, lambda name: [""] * 4, options) == rows[:1]
    said = "3 of 4 clips have no label and are left out (train1, train2, train3)"
    assert said in caplog.text


def test_sentences_are_divided_by_their_number_alone():
    rows = clips(*(f"ONE TWO {index}" for index in range(20)))  # no two the same
    chosen = divide(rows, as_they_are("x", task="ctc", dev_fraction=0.2))
    assert [row.split for row in chosen].count("dev") == 4
    tested = divide(rows, as_they_are("x", task="ctc", folds=4, fold=1))
    labelled = divide(rows, as_they_are("x", folds=4, fold=1))
    assert [row.split for row in tested].count("test") == 5
    assert [row.split for row in tested] != [row.split for row in labelled]


def test_a_share_for_dev_is_taken_once_where_nobody_said_how_large_and_not_from_folds():
    rows, options = clips(*"aabb" * 10, split="all"), as_they_are("x", dev_fraction=None)
    divided = divide(rows, options)
    chosen = [row.label for row in divided if row.split == "dev"]
    assert (chosen.count("a"), chosen.count("b")) == (3, 3)
    assert {row.split for row in divided} == {"train", "dev"}
    assert divided == divide(rows, options), "seeded"
    assert divided != divide(rows, options.replace(split_seed=1))
    assert divided == divide(divided, options), "there is a dev split already"
    folds = divide(rows, options.replace(folds=3))
    assert {row.split for row in folds} == {"train", "test"}
    assert {row.split for row in divide(rows, as_they_are("x", dev_fraction=0.0))} == {"train"}


def people():
    said = [("ann", "a"), ("ann", "b"), ("bo", "a"), ("bo", "b"), ("bo", "c")]
    return [
        LabelledClip("dev", index, f"{who}{index}", label, who)
        for index, (who, label) in enumerate(said)
    ]


def test_one_group_is_tested_but_for_labels_that_only_it_has_and_that_is_said(caplog):
    divided = divide(people(), as_they_are("x", leave_out="signer = ann", dev_fraction=None))
    assert [row.split for row in divided] == ["test", "test", "train", "train", "train"]
    assert not caplog.text
    divided = divide(people(), as_they_are("x", leave_out="signer=bo"))
    assert "signer bo: 1 clips with labels that no other signer has are not" in caplog.text
    assert [row.label for row in divided if row.split == "test"] == ["a", "b"]
    glosses = divide(people(), as_they_are("x", leave_out="signer=bo", task="ctc"))
    assert [row.label for row in glosses if row.split == "test"] == ["a", "b", "c"], "as <unk>"


@pytest.mark.parametrize("given", ["signer=cy", "signer"])
def test_a_group_that_is_not_there_is_refused_with_those_that_are(given):
    message = rf"leave_out: expected signer=VALUE .* \(ann, bo\), got '{given}'"
    with pytest.raises(ConfigError, match=message):
        divide(people(), as_they_are("x", leave_out=given))


def test_any_split_may_be_the_one_to_learn_from():
    rows = [
        LabelledClip(split, number, f"{split}{number}", label)
        for split, labels in (("trainval", "abab"), ("test", "ab"), ("train", "xy"))
        for number, label in enumerate(labels)
    ]
    options = DataSettings("x", train_split="trainval", dev_fraction=0.5)
    with pytest.raises(TrainingError, match="label 'x' of train clip 'train0' is not among the 2"):
        divide_into_splits(rows, options, SimpleNamespace)
    sets = divide_into_splits(rows[:6], options, SimpleNamespace)
    assert sets["dev"].class_names == ("a", "b"), "not those of train"
    assert {split: len(clips.rows) for split, clips in sets.items()} == {
        "trainval": 2, "dev": 2, "test": 2,
    }  # fmt: skip
    bare = [row._replace(split="all") for row in rows[:4]]
    assert {row.split for row in divide(bare, DataSettings("x", train_split="trainval", folds=2))
            } == {"trainval", "test"}  # fmt: skip


LABELS = ["a"] * 20 + ["b"] * 10 + ["c"] * 5


def test_folds_and_shares_are_the_same_of_every_class():
    folds = assign_folds(LABELS, 5, seed=0)
    for fold in range(5):
        members = [label for label, of in zip(LABELS, folds, strict=True) if of == fold]
        assert (members.count("a"), members.count("b"), members.count("c")) == (4, 2, 1)
    chosen = pick_share([*LABELS, "d", "e", "e"], 0.2, seed=3)
    picked = [(*LABELS, "d", "e", "e")[index] for index in chosen]
    assert {name: picked.count(name) for name in "abcde"} == {
        "a": 4, "b": 2, "c": 1, "d": 0, "e": 1,
    }  # fmt: skip
    assert (np.diff(chosen) > 0).all()


def test_seeds_give_the_same_parts_in_every_version():
    assert assign_folds(list("abababab"), 2, seed=4).tolist() == [1, 0, 0, 1, 0, 0, 1, 1]
    assert pick_share(list("abababab"), 0.5, seed=4).tolist() == [0, 1, 2, 7]
