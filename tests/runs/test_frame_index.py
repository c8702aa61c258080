import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posemill.errors import RunError
from posemill.runs.frame_index import (
    IndexedClip,
    indices_of,
    picture_name,
    ranges_of,
    read_index,
    write_index,
)


@pytest.mark.parametrize(
    ("indices", "text"),
    [([], ""), ([7], "7"), ([0, 1], "0-1"), ([0, 2], "0 2"), ([*range(300)], "0-299"),
     ([*range(0, 300, 2)], "0-298/2"), ([0, 1, 2, 4, 5, 6, 8], "0-2 4-6 8"),
     ([0, 5, 6, 7], "0 5-7")],
)  # fmt: skip
def test_numbers_are_written_in_short(indices, text):
    assert ranges_of(indices) == text
    assert indices_of(text).tolist() == indices


@given(st.sets(st.integers(0, 400), max_size=60).map(sorted))
def test_any_ascending_numbers_come_back(indices):
    found = indices_of(ranges_of(indices))
    assert (found.dtype, found.tolist()) == (np.int64, indices)


def clips_in(folder):
    return [
        IndexedClip(folder / "train" / "a" / "b", "a/b", "train", "HELLO, you", "jpg", None, 3, 32,
                    24, 12.5, "0-4/2", {"signer": "7"}),
        IndexedClip(folder / "packs" / "000000.rgb", "c\nd", "all", None, "rgb", 24, 2, 4, 2,
                    frame_indices="5-6"),
    ]  # fmt: skip


def test_what_is_written_comes_back(tmp_path):
    written = clips_in(tmp_path)
    path = write_index(tmp_path, written)
    assert read_index(tmp_path) == read_index(path)
    first, second = read_index(path)
    assert first == written[0]
    assert second == IndexedClip(**{**vars(written[1]), "extra": {"signer": ""}})
    assert picture_name(1_000_000, "png") == "1000000.png"
    assert [path.name for path in tmp_path.iterdir()] == ["index.csv"]
    with path.open(newline="", encoding="utf-8") as handle:  # as strangers read it
        rows = list(csv.DictReader(handle))
    assert rows[0] == {
        "path": "train/a/b", "clip_id": "a/b", "split": "train", "label": "HELLO, you",
        "format": "jpg", "offset": "", "num_frames": "3", "width": "32", "height": "24",
        "fps": "12.5", "frame_indices": "0-4/2", "signer": "7",
    }  # fmt: skip
    assert (rows[1]["path"], rows[1]["offset"], rows[1]["fps"]) == ("packs/000000.rgb", "24", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_frames", "frames", r"line 2: it has no column 'num_frames'"),
        (",3,32,", ",3,,", r"line 2: invalid literal for int\(\) .*''"),
        (",3,32,", ",three,32,", r"line 2: invalid literal for int\(\) .*'three'"),
        (",jpg,", ",mp4,", r"line 2: the format 'mp4' is not known"),
        ("path,clip_id", "path;clip_id", r"line 2: expected 11 fields"),
    ],
)
def test_an_index_that_is_broken_or_not_there_is_said(tmp_path, old, new, message):
    with pytest.raises(RunError, match=r"index.csv is not there: posemill frames writes it when"):
        read_index(tmp_path)
    path = write_index(tmp_path, clips_in(tmp_path))
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RunError, match=r"index.csv is no index of frames: " + message):
        read_index(path)
