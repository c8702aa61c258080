import pytest

from posemill.errors import TrainingError
from posemill.sources import find_clips
from posemill.tables import read_table
from posemill.training.data.annotations import Annotation, read_annotations

COMMA = "video_id,label,split\r\na,你好,train\r\nb,再见,dev\r\n"
TABLES = {
    "semicolon": COMMA.replace(",", ";").encode(),
    "tab": COMMA.replace(",", "\t").encode(),
    "excel": b"\xef\xbb\xbf" + COMMA.replace(",", ";").encode(),
    "excel's word": ("sep=;\r\n" + COMMA.replace(",", ";")).encode(),
    "gbk": COMMA.encode("gbk"),
    "utf-16": COMMA.replace(",", "\t").encode("utf-16"),
    "utf-16 big": b"\xfe\xff" + COMMA.encode("utf-16-be"),
    "utf-16 without a mark": COMMA.encode("utf-16-le"),
    "utf-16 big without a mark": COMMA.encode("utf-16-be"),
    "capitals": COMMA.replace("video_id,label,split", "Video_ID,LABEL,Split").encode(),
    "blanks": COMMA.replace("video_id,label,split", " Video ID , Label , Split").encode(),
    "quotes": COMMA.replace("a,", '"a",').encode(),
    "separators at the end": COMMA.replace("\r\n", ",,\r\n").encode(),
    "empty lines": COMMA.replace("\r\n", "\n\n").encode(),
}


@pytest.mark.parametrize("name", TABLES)
def test_labels_are_read_however_they_were_saved(name, tmp_path):
    (tmp_path / "labels.csv").write_bytes(TABLES[name])
    assert dict(read_annotations(tmp_path / "labels.csv")) == {
        "a": Annotation("你好", "train"),
        "b": Annotation("再见", "dev"),
    }


@pytest.mark.parametrize("name", TABLES)
def test_lists_of_clips_are_read_however_they_were_saved(name, tmp_path):
    data = TABLES[name]
    for old, new in (("video_id", "path"), ("Video_ID", "PATH"), ("Video ID", "Path")):
        for encoding in ("utf-16-le", "utf-16-be") if name.startswith("utf-16") else ("ascii",):
            data = data.replace(old.encode(encoding), new.encode(encoding))
    (tmp_path / "list.csv").write_bytes(data)
    found = [(clip.clip_id, clip.label, clip.split) for clip in find_clips(tmp_path / "list.csv")]
    assert sorted(found) == [("a", "你好", "train"), ("b", "再见", "dev")]


def test_paths_in_gbk_are_found_by_the_files_that_are_there(tmp_path):
    (tmp_path / "手语").mkdir()
    (tmp_path / "手语" / "1.png").touch()
    (tmp_path / "list.csv").write_bytes("path,label\n手语,你好\n".encode("gbk"))
    [clip] = find_clips(tmp_path / "list.csv")
    assert (clip.clip_id, clip.label, clip.num_frames) == ("手语", "你好", 1)
    # Seconds may have a comma.
    (tmp_path / "list.csv").write_text("path;start_seconds\na.mp4;1,5\n")
    [clip] = find_clips(tmp_path / "list.csv")
    assert clip.start_seconds == 1.5


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04 and more", "is a spreadsheet; save it as CSV"),
        (b"\xd0\xcf\x11\xe0 old Excel", "is a spreadsheet; save it as CSV"),
        (b"video_id,label\na,b,c\n", "line 2: expected 2 fields as in the first line, got 3"),
        (b"sep=;\nvideo_id;label\na;b;c\n", "line 3: expected 2 fields as in the first line"),
        (b"video_id;label\na\n", "line 2: expected 2 fields as in the first line, got 1"),
        (b"video_id,label,Label\na,b,c\n", "line 1: a column twice in"),
        (b"video;word\na;b\n", r"line 1: expected a column 'video_id', got \['video', 'word'\]"),
        (b"video_id,label\na,\xff\n", "neither UTF-8, UTF-16 nor GBK text; save it as UTF-8"),
        (b'video_id,label\na,"b\n', "line 2: unexpected end of data"),
        (b"v\0i\0d\0,\0\xd8\xd8", "is not UTF-16-LE text"),
        (b"video_id,label\na,\0\n", "neither UTF-8, UTF-16 nor GBK text; save it as UTF-8"),
    ],
)
def test_what_is_no_table_is_one_sentence(data, said, tmp_path):
    (tmp_path / "labels.csv").write_bytes(data)
    with pytest.raises(TrainingError, match=said):
        read_annotations(tmp_path / "labels.csv")


def test_columns_that_are_not_known_keep_their_names(tmp_path):
    (tmp_path / "t.csv").write_text("Video-ID;Signer Name\na;Mia\n")
    [line] = read_table(tmp_path / "t.csv", names=["video_id"], encoding="utf-8")
    assert line == (2, {"video_id": "a", "Signer Name": "Mia"})


def test_clips_are_found_with_and_without_folder_and_ending(tmp_path):
    (tmp_path / "labels.csv").write_text("video_id,label\nvideos/a.MP4,x\nb,y\nc/1,z\nd/e,v\n")
    found = read_annotations(tmp_path / "labels.csv")
    ids = ["a", "train/b.avi", "c", "s1/e", "s2/e"]
    assert {name: row.label for name, row in found.match(ids).items()} == {
        "a": "x", "train/b.avi": "y", "c": "z",
    }  # fmt: skip
    # `s1/e` and `s2/e` could both be `d/e`: which one it is nobody knows.
    assert found.match(["s1/e"])["s1/e"].label == "v"
