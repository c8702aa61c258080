"""Folders of pictures: which are tracked as video, by evidence, and how many are looked at."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from posemill.records import Clip
from posemill.sources import find_clips, tracking
from posemill.sources.tracking import Tracking, decide_tracking, numbering_of


def judge(folder):
    """Return why the pictures of a folder stand alone; empty where they are video."""
    return "".join(decide_tracking([Clip("a", str(folder), "frames")]).reasons)


def photograph(seed, size_wh=(64, 48)):
    """Return a picture like no other: large blots of random brightness."""
    blots = np.random.default_rng(seed).integers(0, 256, (4, 4), dtype=np.uint8)
    return cv2.resize(blots, size_wh, interpolation=cv2.INTER_CUBIC)


def write_photographs(folder, number=12, name="{:03}.jpg", seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        cv2.imwrite(str(folder / name.format(index)), photograph(1000 * seed + index))


def write_video(folder, number=12, name="{:03}.jpg", seed=0):
    """Write frames of a bright square that moves over one photograph."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        picture = photograph(seed)
        picture[10:26, 2 * index : 2 * index + 16] = 255
        cv2.imwrite(str(folder / name.format(index)), picture)


def test_photographs_in_train_frames_stand_alone_and_a_video_beside_them_is_tracked(tmp_path):
    write_photographs(tmp_path / "train" / "frames", 30)
    write_video(tmp_path / "train" / "walk")
    found = decide_tracking(find_clips(tmp_path))
    assert found.alone == {("train", "frames")}
    assert (found.num_tracked, found.num_alone) == (1, 30)
    assert found.describe() == (
        "tracked as video: 1 clip; 30 pictures stand alone; 1 folder: neighbours are not alike "
        '(by a look at 2 of 2 folders; mode="video" or mode="image" overrules it)'
    )
    assert Tracking.from_record(json.loads(json.dumps(found.to_record()))) == found


def test_each_piece_of_evidence_is_enough(tmp_path):
    write_video(tmp_path / "video")
    write_video(tmp_path / "steps", name="f{:03}0.png")
    write_photographs(tmp_path / "photos")
    write_video(tmp_path / "names", name="{:03}.jpg")
    for index, path in enumerate(sorted((tmp_path / "names").iterdir())):
        path.rename(path.with_name(f"{index**2 * 7:05}.jpg"))
    write_video(tmp_path / "sizes")
    cv2.imwrite(str(tmp_path / "sizes" / "000.jpg"), photograph(0, (48, 64)))
    write_photographs(tmp_path / "single", 1)
    assert {folder.name: judge(folder) for folder in sorted(tmp_path.iterdir())} == {
        "video": "", "steps": "", "photos": "neighbours are not alike",
        "names": "their names are not numbered one after the other",
        "sizes": "their sizes differ", "single": "one picture",
    }  # fmt: skip


def test_a_fast_pan_is_video_though_neighbours_differ(tmp_path):
    wide = cv2.resize(photograph(3), (2000, 48), interpolation=cv2.INTER_CUBIC)
    for index in range(20):
        cut = wide[:, 90 * index : 90 * index + 160]
        cv2.imwrite(str(tmp_path / f"{index}.png"), np.ascontiguousarray(cut))
    assert judge(tmp_path) == ""


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["images0001.png", "images0002.png", "images0003.png"], "images#.png"),
        (["a7_5.png", "a7_10.png", "a7_15.png"], "a#_#.png"),
        (["1.png", "2.png", "3.png", "9.png", "11.png"], "#.png"),
        (["only.png"], "only.png"),
        (["1.png", "2.jpg"], None),
        (["1_1.png", "2_2.png"], None),
        (["a.png", "b.png"], None),
        (["1.png", "5.png", "7.png", "20.png"], None),
    ],
)
def test_names_are_numbered_if_one_number_goes_up_in_even_steps(names, pattern):
    assert numbering_of(names) == pattern


def test_of_many_folders_alike_a_few_are_looked_at_and_the_rest_follow(tmp_path, monkeypatch):
    read = []
    original = tracking.read_thumbnail
    monkeypatch.setattr(
        tracking, "read_thumbnail", lambda path: read.append(path) or original(path)
    )
    for number in range(200):
        write_video(tmp_path / f"clip{number}", 2, seed=number)
    found = decide_tracking(find_clips(tmp_path))
    assert (found.num_tracked, found.num_looked_at, found.num_folders) == (200, 40, 200)
    assert len(read) == 80


def test_where_those_looked_at_do_not_agree_all_are(tmp_path):
    for number in range(100):
        write = write_photographs if number % 2 else write_video
        write(tmp_path / f"{number}", 3, seed=number)
    found = decide_tracking(find_clips(tmp_path))
    assert found.alone == {("all", str(number)) for number in range(1, 100, 2)}
    assert found.num_looked_at == 100


def test_folders_that_say_nothing_follow_those_of_their_pattern(tmp_path):
    write_video(tmp_path / "video")
    write_video(tmp_path / "short", 1)
    (tmp_path / "broken").mkdir()
    for number in range(3):
        (tmp_path / "broken" / f"{number}.jpg").write_bytes(b"no picture")
    assert decide_tracking(find_clips(tmp_path)).alone == frozenset()
    loose = find_clips(tmp_path / "broken", layout="pictures")
    assert decide_tracking(loose).alone == {("all", "broken")}
    elsewhere = Clip("loose", "s3://bucket/loose", "pictures", num_frames=3)
    assert decide_tracking([elsewhere]).num_alone == 3
    write_photographs(tmp_path / "other" / "x", 1, name="portrait.jpg")
    (found,) = decide_tracking(find_clips(tmp_path)).alone
    assert found == ("all", "other/x")


def test_a_folder_that_cannot_be_read_is_left_to_the_run(tmp_path):
    write_video(tmp_path / "list" / "clip")
    (tmp_path / "list.csv").write_text("path\nlist/clip\nlist/gone\n")
    found = decide_tracking(find_clips(tmp_path / "list.csv"))
    assert (found.num_tracked, found.num_folders) == (2, 1)


@pytest.mark.parametrize(("difference", "verdict"), [(16, ""), (17, "neighbours are not alike")])
def test_neighbours_are_alike_up_to_sixteen_levels_of_grey(tmp_path, difference, verdict):
    for index in range(4):
        picture = np.full((32, 32), 100 + difference * (index % 2), np.uint8)
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture)
    assert judge(tmp_path) == verdict


def test_five_pairs_of_a_folder_are_looked_at(tmp_path, monkeypatch):
    read = []

    def read_thumbnail(path):
        read.append(Path(path).stem)
        return (32, 32), np.zeros((32, 32), np.uint8)

    monkeypatch.setattr(tracking, "read_thumbnail", read_thumbnail)
    for index in range(22):
        (tmp_path / f"{index:02}.png").touch()
    assert judge(tmp_path) == ""
    assert read == ["00", "01", "05", "06", "10", "11", "15", "16", "20", "21"]
