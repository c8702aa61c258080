import os
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import ConfigError, FormatError, TrainingError
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.cache import verify_once
from posemill.training.data.keypoint_clips import load_keypoints, read_labelled

as_they_are = partial(DataSettings, num_dims=0, dev_fraction=0.0)

RNG = np.random.default_rng(0)


def write_split(folder, split, lengths, **more):
    points = RNG.random((sum(lengths.values()), 143, 3)).astype(np.float32) + 0.1
    ids = np.repeat(list(lengths), list(lengths.values()))
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{split}_keypoints.npz", keypoints=points, video_ids=ids, **more)


@pytest.fixture
def options(tmp_path):
    """Two splits of short clips with two classes."""
    write_split(tmp_path / "data", "train", {"a": 4, "b": 6, "c": 5, "d": 3})
    write_split(tmp_path / "data", "test", {"e": 4, "f": 2})
    labels = tmp_path / "labels.csv"
    labels.write_text("video_id,label\na,no\nb,yes\nc,no\nd,yes\ne,yes\nf,no\n")
    return as_they_are(str(tmp_path / "data"), str(labels), cache_folder=str(tmp_path / "cache"))


def label(options, text):
    Path(options.labels).write_text("video_id,label\n" + text)


def ctc(options, text, **changes):
    label(options, text)
    return options.replace(task="ctc", **changes)


def save_test(folder, num_points, **more):
    points = np.ones((2, num_points, 3), np.float32)
    np.savez(folder / "test_keypoints.npz", keypoints=points, **more)


def test_prepared_files_and_labels_make_sets(options):
    sets = load_keypoints(options)
    train = sets["train"]
    assert train.class_names == ("no", "yes")
    assert train.targets == (0, 1, 0, 1)
    assert train.lengths.tolist() == [4, 6, 5, 3]
    assert train.shape == {"num_points": 143, "num_dims": 3, "skeleton_name": "holistic-143"}
    assert sets["test"].clip_ids == ("e", "f")
    sample = sets["test"].sample(1)
    assert sample.points.shape == (2, 143, 3)
    assert sample.target == 0
    with pytest.raises(TrainingError, match=r"has no clips of split 'dev'"):
        load_keypoints(options, splits=["dev"])


def test_a_file_may_say_labels_and_splits_itself(options, tmp_path):
    more = {"labels": np.array(["x", "y"]), "splits": np.array(["", "val"])}
    write_split(tmp_path / "data", "train", {"a": 4, "b": 6}, **more)
    _, rows = read_labelled(options.replace(labels="", missing_labels="drop"))
    # after the two clips of test
    assert [(row.row, row.clip_id, row.split, row.label) for row in rows] == [
        (2, "a", "train", "x"), (3, "b", "dev", "y"),
    ]  # fmt: skip


def test_glosses_become_indices_and_numeric_labels_are_in_the_order_of_numbers(options, tmp_path):
    text = "a,RAIN\nb,RAIN SNOW\nc,SUN\nd,SUN\ne,SNOW FOG\nf,RAIN\n"
    sets = load_keypoints(ctc(options, text))
    assert sets["train"].class_names == ("<blank>", "<unk>", "RAIN", "SNOW", "SUN")
    assert [list(np.atleast_1d(t)) for t in sets["test"].targets] == [[3, 1], [2]]
    (tmp_path / "labels.csv").write_text("video_id,label\na,10\nb,9\nc,10\nd,9\ne,9\nf,10\n")
    assert load_keypoints(options)["train"].class_names == ("9", "10")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda options, _: label(options, "".join(f"{x},no\n" for x in "abcdef")),
         "only one class in the training clips"),
        (lambda options, _: label(options, "a,no\nb,yes\nc,no\nd,yes\ne,perhaps\nf,no\n"),
         "label 'perhaps' of test clip 'e' is not among the 2"),
        (lambda _, data: [write_split(data, split, {}) for split in ("train", "test")],
         "data: no clips"),
        (lambda _, data: (data / "train_keypoints.npz").unlink(), "has no clips of split 'train'"),
        (lambda _, data: save_test(data, 18, video_ids=["e", "f"]),
         "prepare all splits with the same layout"),
        (lambda _, data: save_test(data, 143, lengths=[2, 0], clip_ids=["e", "f"]),
         "clip 'f' has no frames"),
    ],
)  # fmt: skip
def test_clips_that_nothing_can_be_learned_from_are_refused(options, tmp_path, spoil, message):
    spoil(options, tmp_path / "data")
    with pytest.raises(TrainingError, match=message):
        load_keypoints(options)


def test_a_found_point_that_is_no_number_is_refused_with_the_clip(options, tmp_path):
    points = np.ones((5, 143, 3), np.float32)
    points[3, 7] = np.nan
    ids = np.array(list("aabbb"))
    path = tmp_path / "data" / "train_keypoints.npz"
    np.savez(path, keypoints=points, video_ids=ids)
    train = load_keypoints(options)["train"]
    assert not train.sample(1).mask[1, 7], "NaN is a missing point where there is no mask"
    np.savez(path, keypoints=points, video_ids=ids, mask=np.ones((5, 143), bool))
    with pytest.raises(FormatError, match=r"clip 'b': a found point is infinite or not a number"):
        load_keypoints(options)
    np.savez(path, keypoints=points, video_ids=ids, mask=np.isfinite(points).all(-1))
    assert len(load_keypoints(options)["train"]) == 2, "a NaN that the mask calls missing is fine"


def test_an_archive_is_read_through_once_and_a_changed_byte_is_noticed(options, tmp_path):
    path = tmp_path / "data" / "train_keypoints.npz"
    load_keypoints(options)
    before = path.stat()
    damaged = bytearray(path.read_bytes())
    damaged[5000] ^= 4
    path.write_bytes(damaged)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    load_keypoints(options)  # the very file, as far as its size and time say: not read again
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(FormatError, match=r"train_keypoints\.npz.*Bad CRC-32"):
        load_keypoints(options)


def test_content_that_was_changed_by_one_byte_is_not_taken_from_the_cache(options, tmp_path):
    path = tmp_path / "data" / "train_keypoints.npz"
    options = options.replace(normalize="none")
    points = np.load(path)["keypoints"]
    old = load_keypoints(options)["train"].sample(0).points.copy()
    np.testing.assert_array_equal(old, points[:4])
    points.view(np.uint8)[0, 0, 0] ^= 1
    np.savez(path, keypoints=points, video_ids=np.load(path)["video_ids"])
    new = load_keypoints(options)["train"].sample(0).points
    assert (new != old).sum() == 1
    np.testing.assert_array_equal(new, points[:4])


def test_a_folder_that_cannot_be_written_costs_a_reading_and_no_more(tmp_path):
    (tmp_path / "file").write_text("")
    calls = []
    for _ in range(2):
        verify_once(tmp_path / "file", lambda: calls.append(1), folder=tmp_path / "file")
    assert len(calls) == 2
    for _ in range(2):
        verify_once(tmp_path / "file", lambda: calls.append(1), folder=tmp_path / "cache")
    assert len(calls) == 3
    (tmp_path / "file").write_text("more")
    verify_once(tmp_path / "file", lambda: calls.append(1), folder=tmp_path / "cache")
    assert len(calls) == 4


def test_clips_shorter_than_their_glosses_are_refused_or_dropped(options):
    # Two equal glosses need a blank between them: three steps of two frames are six frames.
    text = "a,RAIN\nb,SNOW\nc,SUN SUN\nd,RAIN\ne,SUN\nf,SUN\n"
    chosen = ctc(options, text)
    with pytest.raises(TrainingError, match=r"1 of 4 train clips .*'c' has 5 frames, 2 steps"):
        load_keypoints(chosen, time_stride=2)
    kept = load_keypoints(chosen.replace(short_clips="drop"), time_stride=2)
    assert kept["train"].clip_ids == ("a", "b", "d")
    assert len(load_keypoints(chosen)["train"]) == 4
    with pytest.raises(TrainingError, match="4 of 4 train clips are shorter"):
        load_keypoints(chosen.replace(short_clips="drop"), time_stride=9)


def test_real_data_of_three_kinds_is_read(shared, tmp_path):
    folder = shared / "datasets"
    cache = {"cache_folder": str(tmp_path)}
    labels = str(folder / "signs48" / "labels.csv")
    _, rows = read_labelled(as_they_are(str(folder / "signs48"), labels))
    assert Counter(row.split for row in rows) == {"train": 960, "dev": 192, "test": 288}
    jhmdb = load_keypoints(as_they_are(str(folder / "jhmdb_gt" / "split1_{split}.npz"), **cache))
    assert (len(jhmdb["train"]), len(jhmdb["test"])) == (433, 176)
    hands = load_keypoints(
        as_they_are(str(folder / "hand_gestures" / "keypoint.csv"), folds=5, **cache)
    )
    assert len(hands["train"]) + len(hands["test"]) == 4450


def test_depth_is_left_out_where_nobody_asked_for_it_and_the_skeleton_is_known(options):
    opened = options.replace(num_dims=None)
    assert load_keypoints(opened)["train"].shape["num_dims"] == 2
    bare = load_keypoints(opened.replace(skeleton="none"))["train"]
    assert (bare.shape["num_dims"], bare.skeleton_name) == (3, None)
    with pytest.raises(ConfigError, match=r"openpose-18 has 18 points, .* has 143"):
        load_keypoints(options.replace(skeleton="openpose-18"))
