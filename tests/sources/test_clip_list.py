import shutil

import pytest

from posemill.sources import ClipList, SplitTotals, find_clips


@pytest.fixture
def dataset(tmp_path, make_tree):
    return make_tree(tmp_path / "data", "train/a/1.png", "train/a/2.png", "test/b/1.png")


def test_it_is_a_sequence_with_totals(dataset, make_video):
    clips = find_clips(dataset)
    assert isinstance(clips, ClipList)
    assert len(clips) == 2
    assert clips[0].clip_id == "a"
    assert clips[1:] == (clips[1],)
    assert clips.totals == {"train": SplitTotals(1, 2, 0), "test": SplitTotals(1, 1, 0)}
    assert repr(clips).endswith(f"layout='frames', {clips.totals})")
    make_video(dataset / "a.mp4")
    videos = find_clips(dataset, layout="videos")
    assert videos.totals == {"all": SplitTotals(1, 0, 1)}


def test_the_fingerprint_stays_when_nothing_changes_or_the_data_moves(dataset):
    before = find_clips(dataset).fingerprint
    assert len(before) == 64
    (dataset / "README.txt").write_text("ignored")
    assert find_clips(dataset).fingerprint == before
    moved = dataset.parent / "elsewhere"
    shutil.move(dataset, moved)
    assert find_clips(moved).fingerprint == before


@pytest.mark.parametrize(
    ("layout", "change"),
    [
        ("frames", lambda root: shutil.copyfile(root / "train/a/1.png", root / "train/a/3.png")),
        ("frames", lambda root: (root / "train/a/2.png").unlink()),
        ("frames", lambda root: (root / "train/a/2.png").rename(root / "train/a/3.png")),
        ("frames", lambda root: (root / "train/a").rename(root / "train/z")),
        ("frames", lambda root: (root / "test").rename(root / "dev")),
        ("frames", lambda root: shutil.copytree(root / "test/b", root / "test/c")),
        ("videos", lambda root: (root / "x.mp4").write_bytes(b"longer")),
    ],
    ids=["frame added", "removed", "renamed", "clip", "split", "clip added", "video's size"],
)
def test_the_fingerprint_notices(dataset, layout, change):
    (dataset / "x.mp4").write_bytes(b"short")
    before = find_clips(dataset, layout=layout).fingerprint
    change(dataset)
    assert find_clips(dataset, layout=layout).fingerprint != before
