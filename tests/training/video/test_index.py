import pytest
from numbered_clips import INDEX_COLUMNS

from posemill.errors import SourceError
from posemill.records import Clip
from posemill.training.video.index import StoredClip, read_index


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_list_names_videos_and_folders_relative_to_itself(tmp_path):
    touch(tmp_path / "a" / "one.v2.mp4")
    touch(tmp_path / "b.dir" / "000.png")
    path = write(
        tmp_path / "list.csv",
        "Path;Split;label;recorded_at;start_seconds;end_seconds",
        "a/one.v2.mp4;train;wave;monday;0.5;2",
        "b.dir;;stop;friday;;",
    )
    clips, missing = read_index(path)
    assert missing == []
    video, folder = clips
    assert (video.clip_id, video.path) == ("a/one.v2@0.5-2", str(tmp_path / "a" / "one.v2.mp4"))
    assert (video.kind, video.split, video.label) == ("video", "train", "wave")
    assert (video.start_seconds, video.end_seconds) == (0.5, 2.0)
    assert (folder.clip_id, folder.path) == ("b.dir", str(tmp_path / "b.dir"))
    assert (folder.kind, folder.split, folder.num_frames) == ("frames", "all", 1)
    assert [clip.extra["recorded_at"] for clip in clips] == ["monday", "friday"]


def test_the_index_of_packed_frames_says_all_that_reading_needs(packed):
    clips, _ = read_index(packed)
    assert len(clips) == 9
    assert clips[7] == StoredClip(
        "clip7", str(packed / "packs" / "000000.rgb"), "frames", "dev", 12, label="right_swipe",
        size_wh=(48, 32), fps=25.0, offset=7 * 12 * 32 * 48 * 3, extra={"day": "day1"},
    )  # fmt: skip


def test_missing_files_are_told_apart_from_those_that_are_there(tmp_path):
    touch(tmp_path / "a.mp4")
    path = write(tmp_path / "index.csv", "path,label", "a.mp4,x", "gone/b.mp4,y")
    assert read_index(tmp_path) == read_index(path), "a list of the folder's own"
    clips, missing = read_index(path)
    assert [clip.clip_id for clip in clips] == ["a"]
    assert [(clip.clip_id, clip.path, clip.label) for clip in missing] == [
        ("gone/b", str(tmp_path / "gone" / "b.mp4"), "y")
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nothing.csv",
         "is not there: expected a list of clips, a video or a folder"),
        (lambda folder: write(folder / "list.csv", "path,label"), "expected a row for each clip"),
        (lambda folder: write(folder / "list.csv", "label,split", "a,b"),
         "expected a column 'path'"),
        (lambda folder: write(folder / "list.csv", "path,label", "b.mp4,y", "c.mp4,y"),
         "none of its 2 clips is there; the first should be .*b"),
        (lambda folder: folder, "no clips in"),
        (lambda folder: touch(touch(folder / "a.mp4").parent / "b" / "0.jpg").parents[1],
         "holds both 1 video and 1 picture"),
        (lambda folder: touch(folder / "ledger.sqlite").parent,
         "index.csv is not there: posemill frames writes it"),
        (lambda folder: write(folder / "list.csv", INDEX_COLUMNS, "a,b,c,d,png,,many,48,32,25,0"),
         "is no index of frames: line 2: invalid literal"),
    ],
)  # fmt: skip
def test_lists_and_folders_that_are_none_are_refused(tmp_path, make, message):
    with pytest.raises(SourceError, match=message):
        read_index(make(tmp_path))


def test_folders_of_videos_name_split_and_label(tmp_path):
    for name in ("train/wave/b10.mp4", "train/wave/b2.mp4", "Dev/stop/c.webm", "loose.avi"):
        touch(tmp_path / name)
    touch(tmp_path / "notes.txt")
    clips, _ = read_index(tmp_path)
    found = sorted((clip.clip_id, clip.split, clip.label, clip.kind) for clip in clips)
    assert found == [
        ("loose", "all", None, "video"),
        ("stop/c", "dev", "stop", "video"),
        ("wave/b10", "train", "wave", "video"),
        ("wave/b2", "train", "wave", "video"),
    ]
    names = [clip.clip_id for clip in clips if clip.split == "train"]
    assert names == ["wave/b2", "wave/b10"], "in natural order"


def test_clips_of_the_library_are_taken(tmp_path):
    there = Clip("a", str(touch(tmp_path / "a.mp4")), "video", "dev", label="x", end_seconds=2.0)
    gone = Clip("b", str(tmp_path / "b"), "frames")
    clips, missing = read_index([there, gone])
    assert (clips, missing) == ([there], [gone])
    with pytest.raises(TypeError, match=r"expected a path or posemill.Clip objects, got str"):
        read_index(["a.mp4"])


def test_lists_of_json_lines_and_equal_stems_are_read_as_extraction_reads_them(tmp_path):
    for name in ("a.mp4", "a.avi", "b.mp4"):
        touch(tmp_path / name)
    rows = ['{"path": "a.mp4"}', '{"path": "a.avi", "label": "x"}', '{"path": "b.mp4"}']
    clips, _ = read_index(write(tmp_path / "list.jsonl", *rows))
    assert [(clip.clip_id, clip.label) for clip in clips] == [
        ("a.mp4", None),
        ("a.avi", "x"),
        ("b", None),
    ]
