"""An odd `.npz` gets one answer, or one error, whichever door it comes in by."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from posemill.errors import FormatError
from posemill.formats import get_format
from posemill.npz.clips import read_frames, read_npz_clips, read_npz_header, split_by_name
from posemill.npz.mapped import open_npz
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.keypoint_clips import load_keypoints
from posemill.training.data.readers import read_clips

pytest.importorskip("torch")
from posemill.training.data.torch_data import KeypointDataset

as_they_are = partial(DataSettings, num_dims=0, dev_fraction=0.0)

# id, split, label, points with 0 where missing, mask
Seen = tuple[str, str, str, npt.NDArray[np.float32], npt.NDArray[np.bool_]]
POINTS = np.random.default_rng(0).uniform(0.1, 0.9, (6, 18, 3)).astype(np.float32)
IDS = np.array(["a", "a", "a", "b", "b", "b"])


def through_format(path):
    return [
        (clip.clip_id, clip.split, clip.label or "", np.nan_to_num(clip.points), clip.mask)
        for clip in get_format("npz").read(path)
    ]


def through_training(path):
    raw = read_clips(path)
    labels = path.parent / "labels.csv"
    labels.write_text("video_id,label\n" + "".join(f"{name},X\n" for name in raw.clip_ids))
    options = as_they_are(
        str(path), str(labels), task="ctc", normalize="none", skeleton="none", cache="none",
        cache_folder=str(path.parent / "cache"),
    )  # fmt: skip
    sets = load_keypoints(options)
    samples = {(split, name): made.sample(index) for split, made in sets.items()
               for index, name in enumerate(made.clip_ids)}  # fmt: skip
    seen = []
    for name, split, label in zip(raw.clip_ids, raw.splits, raw.labels, strict=True):
        sample = samples[split or "train", name]  # clips of no split are for training
        seen.append((name, split or split_by_name(path), label, sample.points, sample.mask))
    return seen


def through_dataset(path):
    return [
        (item["clip_id"], item["split"], item["label"], item["points"].numpy(),
         item["mask"].numpy())
        for item in (data[index] for data in [KeypointDataset(path)] for index in range(len(data)))
    ]  # fmt: skip


DOORS = [through_format, through_training, through_dataset]
HOLES = POINTS.copy()
HOLES[0, 0], HOLES[1, 1], HOLES[2, 2, 1] = 0, np.nan, np.nan
TEXTS = [json.dumps({"label": f"L{index}"}) for index in range(2)]


@pytest.mark.parametrize(
    ("arrays", "clips"),
    [
        ({"video_ids": IDS}, ["a", "b"]),
        ({"video_ids": np.array([7, 7, 7, 7, 8, 8])}, ["7", "8"]),
        ({}, ["odd"]),
        ({"lengths": [2, 4]}, ["odd_0000", "odd_0001"]),
        ({"lengths": [2, 4], "video_ids": ["x", "y"]}, ["x", "y"]),
        ({"lengths": [2, 1, 3], "video_ids": IDS}, ["a_0000", "a_0001", "b"]),
        ({"lengths": [2, 4], "clip_ids": ["x", "y"], "splits": ["train", "dev"]}, ["x", "y"]),
        ({"lengths": [2, 4], "clip_ids": ["x", "x"], "splits": ["train", "dev"]}, ["x", "x"]),
        ({"video_ids": IDS, "labels": ["p", "q"]}, ["a", "b"]),
        ({"video_ids": IDS, "labels": [3, 3, 3, 4, 4, 4]}, ["a", "b"]),
        ({"video_ids": IDS, "clip_info": TEXTS}, ["a", "b"]),
        ({"video_ids": IDS, "mask": (POINTS[..., 0] > 0.4).astype(np.uint8)}, ["a", "b"]),
        ({"video_ids": IDS, "mask": (POINTS[..., 0] > 0.4).astype(float)}, ["a", "b"]),
        ({"keypoints": HOLES, "video_ids": IDS}, ["a", "b"]),
        ({"keypoints": np.round(POINTS * 4).astype(np.int16), "video_ids": IDS}, ["a", "b"]),
        ({"keypoints": np.round(POINTS * 4).astype(np.uint8), "video_ids": IDS}, ["a", "b"]),
        ({"keypoints": POINTS.astype(np.float64), "scores": np.ones((6, 18), int)}, ["odd"]),
        ({"keypoints": np.asfortranarray(POINTS.astype(">f4")), "video_ids": IDS}, ["a", "b"]),
    ],
)
def test_an_odd_archive_is_the_same_clips_through_every_door(tmp_path, arrays, clips):
    np.savez(tmp_path / "odd.npz", **{"keypoints": POINTS, **arrays})
    first, *others = [door(tmp_path / "odd.npz") for door in DOORS]
    assert [each[0] for each in first] == clips
    for other in others:
        for one, same in zip(first, other, strict=True):
            assert one[:3] == same[:3]
            for left, right in zip(one[3:], same[3:], strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)


def test_labels_and_splits_are_those_of_the_archive(tmp_path):
    def labels(**arrays):
        np.savez(tmp_path / "odd.npz", keypoints=POINTS, video_ids=IDS, **arrays)
        return [each[2] for each in through_format(tmp_path / "odd.npz")]

    assert labels(labels=["p", "q"]) == ["p", "q"]
    assert labels(labels=[3, 3, 3, 4, 4, 4]) == ["3", "4"]
    assert labels(clip_info=TEXTS) == ["L0", "L1"]
    assert labels(clip_info=TEXTS, labels=["p", ""]) == ["p", "L1"]
    assert split_by_name(Path("a/dev_keypoints.npz")) == "dev"
    assert split_by_name(Path("a/dev.npz")) == "all"


INFINITE = POINTS.copy()
INFINITE[1, 2, 0] = np.inf
NO_NUMBER = POINTS.copy()
NO_NUMBER[1, 2, 0] = np.nan


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"keypoints": POINTS[0]}, r"expected keypoints of shape \(frames, points, dims\)"),
        ({"keypoints": POINTS > 0.5}, r"expected keypoints of shape .*got bool"),
        ({"keypoints": INFINITE}, "not a number, 1 in all, the first in frame 1, point 2"),
        ({"keypoints": NO_NUMBER, "mask": np.ones((6, 18), bool)}, "a 'mask' that is False there"),
        ({"mask": np.ones((6, 1), bool)}, r"expected mask of shape \(6, 18\)"),
        ({"mask": np.full((6, 18), "x")}, r"expected mask .*\(kind biuf\), got <U1"),
        ({"video_ids": ["a", "b"]}, r"expected video_ids of shape .6. "),
        ({"video_ids": IDS.astype("S")}, r"expected video_ids .*\(kind Uiu\), got \|S1"),
        ({"video_ids": ["a", "b", "b", "a", "a", "a"]}, "clip 'a' do not follow .* at frame 3"),
        ({"lengths": [3]}, "lengths add up to 3, keypoints has 6 frames"),
        ({"lengths": [-1, 7]}, "expected 'lengths' of 0 or more"),
        ({"lengths": [3.0, 3.0]}, "expected lengths of shape .*kind iu"),
        ({"lengths": [3, 3], "clip_ids": ["x", "x"]}, "every clip once, but 'x' of clip_ids comes"),
        ({"lengths": [3, 3], "clip_ids": ["x"]}, "expected clip_ids for 2 clips"),
        ({"lengths": [3, 3], "labels": ["x"]}, "expected labels for 2 clips"),
        ({"splits": ["a", "b"]}, "expected splits for 1 clips"),
        ({"labels": list("pqrstu")}, r"expected labels for 1 clips, which begin where 'lengths'"),
        ({"video_ids": IDS, "labels": list("ppqqqq")}, "expected labels for 2 clips"),
        ({"meta": ["{"]}, "Expecting property name"),
        ({"meta": ["[]"]}, "expected an object as meta, got list"),
        ({"clip_info": ["{"]}, "Expecting property name"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_the_same_error_at_every_door(tmp_path, arrays, message):
    path = tmp_path / "odd.npz"
    np.savez(path, **{"keypoints": POINTS, **arrays})
    for door in DOORS:
        with pytest.raises(FormatError, match=rf"odd\.npz.*{message}"):
            door(path)


def test_every_frame_can_be_a_clip_of_its_own(tmp_path):
    names = [f"{index}.png" for index in range(6)]

    def frames(**arrays):
        np.savez(tmp_path / "odd.npz", keypoints=POINTS, **arrays)
        return read_npz_clips(open_npz(tmp_path / "odd.npz"), unit="frame")

    clips = frames(video_ids=IDS, image_paths=names, labels=list("pqrstu"))
    assert clips.clip_ids == tuple(names)
    assert clips.offsets.tolist() == list(range(7))
    assert clips.labels == tuple("pqrstu")
    assert frames(video_ids=IDS, image_paths=[""] * 6).clip_ids == tuple(IDS)
    clips = frames(lengths=[2, 4], labels=["p", "q"])
    assert clips.clip_ids == tuple("012345")
    assert clips.labels == ("",) * 6, "what is said of clips is not said of their frames"


def test_the_key_changes_with_the_content_and_not_with_the_file(tmp_path):
    def key(name, **arrays):
        np.savez(tmp_path / name, **arrays)
        return open_npz(tmp_path / name).content_key()

    first = key("a.npz", keypoints=POINTS)
    assert key("b.npz", keypoints=POINTS) == first
    assert len(first) == 64
    changed = POINTS.copy()
    changed.view(np.uint8)[0, 0, 0] ^= 1
    assert key("a.npz", keypoints=changed) != first
    assert key("a.npz", points=POINTS) != first


def test_short_and_empty_clips_and_archives_have_their_place(tmp_path):
    path = tmp_path / "odd.npz"
    np.savez(path, keypoints=POINTS[:3], video_ids=["a", "b", "b"], labels=["p", "q", "q"],
             frame_index=np.array([4, 5, 6], np.int16))  # fmt: skip
    assert read_npz_clips(open_npz(path)).labels == ("p", "q")
    assert read_frames(open_npz(path), slice(0, 2)).frame_index.dtype == np.int64
    np.savez(path, keypoints=POINTS[:3], video_ids=["a", "a", "a"], lengths=[3, 0])
    assert read_npz_clips(open_npz(path)).clip_ids == ("a", "odd")
    np.savez(path, keypoints=POINTS[:0], video_ids=[])
    clips = read_npz_clips(open_npz(path))
    assert (len(clips), clips.offsets.tolist()) == (0, [0])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_the_header_is_read_in_any_shape_and_is_empty_for_another_maker(tmp_path, shape):
    np.savez(tmp_path / "ours.npz", meta=np.full(shape, '{"recipe": {"centre": true}}'))
    np.savez(tmp_path / "other.npz", keypoints=np.zeros(3))
    assert read_npz_header(open_npz(tmp_path / "ours.npz")) == {"recipe": {"centre": True}}
    assert read_npz_header(open_npz(tmp_path / "other.npz")) == {}
