import json

import numpy as np
import pytest

from posemill.errors import FormatError, TrainingError
from posemill.training.data.readers import content_key_of, find_files, read_clips, skeleton_of

POINTS = np.random.default_rng(0).random((7, 4, 2)).astype(np.float32)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_frames_with_the_same_video_id_are_a_clip(tmp_path):
    path = save(tmp_path / "a.npz", keypoints=POINTS, video_ids=np.array(list("aabbbbc")))
    clips = read_clips(path)
    assert clips.clip_ids == ("a", "b", "c")
    assert clips.offsets.tolist() == [0, 2, 6, 7]
    assert isinstance(clips.arrays["keypoints"], np.memmap), "an array stored plain is mapped"
    np.testing.assert_array_equal(clips.clip(1)[0], POINTS[2:6])
    assert (len(clips), clips.path) == (3, path)
    assert clips.labels == clips.splits == ("", "", "")
    facts = {"lengths": [3, 4], "labels": ["run", "sit"], "mask": np.arange(28).reshape(7, 4) % 2}
    clips = read_clips(save(tmp_path / "s_train.npz", keypoints=POINTS, **facts))
    np.testing.assert_array_equal(clips.clip(1)[1], facts["mask"][3:])
    assert clips.clip_ids == ("s_train_0000", "s_train_0001")
    assert clips.labels == ("run", "sit")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([" ann", "bo "]), ("ann", "bo")),
        (np.array([4, 5]), ("4", "5")),
        (np.array(list("aaabbbb")), ("a", "b")),  # one a frame
        (np.array([0.5, 1.5]), ("", "")),
        (np.array(["a", "b", "c"]), ("", "")),
        (None, ("", "")),
    ],
)
def test_an_array_may_say_whose_each_clip_is(tmp_path, array, said):
    more = {} if array is None else {"signer": array}
    clips = read_clips(save(tmp_path / "a.npz", keypoints=POINTS, lengths=[3, 4], **more))
    assert clips.column("signer") == said
    (tmp_path / "a.csv").write_text("a,1,2\n")
    assert read_clips(tmp_path / "a.csv").column("signer") == ("",)


def test_other_content_has_another_key(tmp_path):
    def key_of(path):
        return content_key_of(read_clips(path), tmp_path)

    keys = [
        key_of(save(tmp_path / f"{name}.npz", keypoints=points, lengths=[7]))
        for name, points in (("a", POINTS), ("b", POINTS), ("c", POINTS + 1))
    ]
    assert keys[0] == keys[1] != keys[2]
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"{name},1,2\n")
    assert key_of(tmp_path / "a.csv") != key_of(tmp_path / "b.csv")


def test_every_frame_can_be_a_sample_of_its_own(tmp_path):
    names = np.array([f"{i}.png" for i in range(7)])
    path = save(
        tmp_path / "a.npz", keypoints=POINTS, video_ids=np.array(list("aabbbbc")), image_paths=names
    )
    clips = read_clips(path, unit="frame")
    assert clips.clip_ids == tuple(names)
    assert clips.offsets.tolist() == list(range(8))


def test_a_csv_row_is_a_label_and_points(tmp_path):
    (tmp_path / "a.csv").write_text("0,1,2,3,4\n1,5,6,7,8\n")
    clips = read_clips(tmp_path / "a.csv")
    assert clips.labels == ("0", "1")
    np.testing.assert_array_equal(clips.clip(1)[0], [[[5, 6], [7, 8]]])
    over_time = read_clips(tmp_path / "a.csv", csv_frames=2)
    assert over_time.clip(1)[0].shape == (2, 1, 2)
    assert over_time.offsets.tolist() == [0, 2, 4]
    assert over_time.offsets.dtype == np.int64
    assert over_time.clip(1)[1].tolist() == [[True], [True]]
    assert over_time.clip_ids == ("row0", "row1")
    assert over_time.splits == ("", "")
    assert skeleton_of(over_time) is None
    assert over_time.path == tmp_path / "a.csv"
    assert read_clips(tmp_path / "a.csv", csv_dims=4).clip(0)[0].shape == (1, 1, 4)
    (tmp_path / "a.csv").write_text("你,7\n", "gb18030")
    short = read_clips(tmp_path / "a.csv", csv_dims=1)
    assert (short.labels, short.clip(0)[0].tolist()) == (("你",), [[[7.0]]])
    (tmp_path / "a.csv").write_bytes(b"\xff\xff,7\n")
    with pytest.raises(FormatError, match=r"a\.csv: not a readable CSV file \(UnicodeDecodeError"):
        read_clips(tmp_path / "a.csv", csv_dims=1)
    (tmp_path / "a.csv").write_text("a,1,2\n")
    with pytest.raises(TrainingError, match=r"multiple of 4 numbers \(2 frames of 2 numbers"):
        read_clips(tmp_path / "a.csv", csv_frames=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a multiple of 2 numbers .* got 0"),
        ("label,x,y\n", "a multiple of 2 numbers .* got 0"),
        ("a,1,2,3\n", "a multiple of 2 numbers .* got 3; posemill train sets both by csv_frames"),
        ("a,1,2\nb,1\n", "row 2: expected .* 2 numbers"),
        ("a,1,2\nb,1,x\n", "row 2: expected .* 2 numbers"),
        ("id,class\nx,wave\n", "got 'x,wave'; of videos expected a list with a column path"),
        ("path,class\nx.mp4,wave\n", r"found by: posemill extract \S+/a\.csv --out RUN"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, text, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(TrainingError, match=message):
        read_clips(path)


def test_a_broken_or_foreign_file_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK not really")
    with pytest.raises(FormatError, match=r"a\.npz"):
        read_clips(tmp_path / "a.npz")
    with pytest.raises(TrainingError, match=r"expected .npz or .csv, got .pkl"):
        read_clips(tmp_path / "a.pkl")
    with pytest.raises(TrainingError, match=r"expected .npz or .csv, got no ending"):
        read_clips(tmp_path / "a")


def test_files_are_found_by_folder_pattern_and_name(tmp_path):
    for name in ("train_keypoints.npz", "dev_keypoints.npz", "fold1_test.npz"):
        save(tmp_path / name, keypoints=POINTS)
    assert set(find_files(str(tmp_path))) == {"train", "dev"}
    assert set(find_files(str(tmp_path / "fold1_{split}.npz"))) == {"test"}
    assert set(find_files(str(tmp_path / "dev_keypoints.npz"))) == {"dev"}
    assert set(find_files(str(tmp_path / "fold1_test.npz"))) == {"all"}
    (tmp_path / "dev_keypoints.npz").rename(tmp_path / "dev.npz")
    (tmp_path / "train_keypoints.npz").rename(tmp_path / "train.npz")
    names = {"train", "dev", "fold1_test"}  # without the usual ending by their whole name
    assert find_files(str(tmp_path)) == {name: tmp_path / f"{name}.npz" for name in names}
    save(tmp_path / "all_keypoints.npz", keypoints=POINTS)
    assert find_files(str(tmp_path)) == {"all": tmp_path / "all_keypoints.npz"}
    assert find_files(str(tmp_path / "{split}_keypoints.npz")) == find_files(str(tmp_path))


def test_no_data_is_said(tmp_path):
    (tmp_path / "nowheer").touch()
    with pytest.raises(
        TrainingError, match=r"no data at .*a folder of videos; did you mean '.*eer'"
    ):
        find_files(str(tmp_path / "nowhere"))
    with pytest.raises(TrainingError, match="found no npz; run: posemill prepare"):
        find_files(str(tmp_path))
    with pytest.raises(TrainingError, match="for any split of train, dev"):
        find_files(str(tmp_path / "{split}.npz"))


def test_a_skeleton_is_that_of_the_file_or_guessed_aloud_and_one_not_installed_is_said(
    tmp_path, caplog
):
    def skeleton_in(num_points, **header):
        meta = {"meta": np.array(json.dumps(header))} if header else {}
        points = np.ones((2, num_points, 2), "f4")
        path = save(tmp_path / "a.npz", keypoints=points, lengths=[2], **meta)
        return skeleton_of(read_clips(path))

    with pytest.raises(TrainingError, match=r"says its skeleton is 'cat-9', which is not known"):
        skeleton_in(143, skeleton="cat-9")
    assert skeleton_in(143, skeleton="openpose-18") == "openpose-18", "not what it looks like"
    assert not caplog.text
    assert skeleton_in(143) == "holistic-143"
    assert "does not name its skeleton; by its number of points it is read as" in caplog.text
    assert skeleton_in(15) is None
