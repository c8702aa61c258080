import dataclasses
import json

import pytest

from posemill.errors import SourceError
from posemill.records import Clip
from posemill.sources import find_clips


@pytest.fixture
def folder(tmp_path, make_tree, make_video):
    make_tree(tmp_path, "clip/1.png", "clip/2.png", "me.jpg")
    make_video(tmp_path / "videos" / "a b.mp4")
    return tmp_path


def write(folder, text, name="list.csv"):
    (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    return folder / name


def test_rows_become_clips_of_every_kind(folder):
    clips = find_clips(
        write(
            folder,
            "path,split,start_seconds,end_seconds,label,signer\n"
            'videos/a b.mp4,train,0.5,1,"HELLO, YOU",7\n'
            "clip,dev,,,,\n"
            "\n"
            f"{folder}/me.jpg,,,,face,8\n",
        )
    )
    assert clips.layout == "list"
    video = str(folder / "videos/a b.mp4")
    assert [dataclasses.replace(clip, version="") for clip in clips] == [
        Clip("videos/a b@0.5-1", video, "video", "train", None, 0.5, 1.0, "HELLO, YOU",
             {"signer": "7"}),
        Clip("clip", str(folder / "clip"), "frames", "dev", 2, extra={"signer": ""}),
        Clip(f"{str(folder)[1:]}/me.jpg", str(folder / "me.jpg"), "pictures", "all", 1,
             label="face", extra={"signer": "8"}),
    ]  # fmt: skip
    assert clips.problems == ()


def test_tsv_json_lines_and_files_of_excel_say_the_same(folder):
    table = write(folder, "path\tsplit\tlabel\tn\nclip\ttrain\tA B\t3\n", "list.tsv")
    row = {"path": "clip", "split": "train", "label": "A B", "n": 3}
    lines = write(folder, json.dumps(row) + "\n\n", "list.jsonl")
    assert list(find_clips(table)) == list(find_clips(lines))
    assert find_clips(table).fingerprint == find_clips(lines).fingerprint
    row = {"path": "clip", "label": None, "tags": ["ü"]}
    [clip] = find_clips(write(folder, json.dumps(row), "more.jsonl"))
    assert (clip.label, clip.extra) == (None, {"tags": '["ü"]'})
    (folder / "list.csv").write_bytes("\ufeffpath,label\r\nclip,ä\r\n".encode())
    assert [clip.label for clip in find_clips(folder / "list.csv")] == ["ä"]
    (folder / "clip").rename(folder / "caf\udce9")
    (folder / "list.csv").write_bytes(b"path\ncaf\xe9\n")
    [clip] = find_clips(folder / "list.csv")
    assert (clip.clip_id, clip.num_frames) == ("caf\\xe9", 2)


def test_the_list_decides_and_not_where_we_are(folder, monkeypatch):
    write(folder, "path\nclip\n")
    monkeypatch.chdir(folder / "videos")
    assert find_clips("../list.csv")[0].num_frames == 2


def test_paths_that_do_not_exist_stay_and_are_told(folder):
    clips = find_clips(write(folder, "path\nclip\ngone.mp4\ngone.png\ngone\n"))
    assert [(clip.clip_id, clip.kind) for clip in clips] == [
        ("clip", "frames"),
        ("gone", "frames"),
        ("gone.mp4", "video"),
        ("gone.png", "pictures"),
    ]
    assert clips.problems == ("3 of 4 paths in the list do not exist",)


def test_ids_are_those_of_the_list_or_made_from_paths_and_never_lead_out(folder):
    [clip] = find_clips(write(folder, "clip_id,path\nmine,clip\n"))
    assert (clip.clip_id, clip.extra) == ("mine", {})
    list_path = write(folder / "videos", "path\n../clip\n./../me.jpg\n")
    assert [clip.clip_id for clip in find_clips(list_path)] == ["clip", "me.jpg"]


def test_several_windows_of_one_video_are_several_clips(folder):
    text = "path,start_seconds,end_seconds\n" + "".join(
        f"videos/a b.mp4,{window}\n" for window in ("0,0.5", "0.5,", ",", ",0.3")
    )
    assert [clip.clip_id for clip in find_clips(write(folder, text))] == [
        "videos/a b",
        "videos/a b@0-0.3",
        "videos/a b@0-0.5",
        "videos/a b@0.5-",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"list\.csv, line 1: expected a column 'path', got \[\]"),
        ("file,label\na,b\n", r"line 1: expected a column 'path', got \['file', 'label'\]"),
        ("path,path\na,b\n", r"line 1: a column twice in \['path', 'path'\]"),
        ("path,label\n", r"list\.csv is empty: expected a row for each clip"),
        ("path,label\nclip\n", r"line 2: expected 2 fields as in the first line, got 1"),
        ("path,label\n ,x\n", r"line 2: 'path' is empty"),
        ("path,start_seconds\n\nvideos/a b.mp4,soon\n", r"line 3: start_seconds: expected seconds"),
        ("path,end_seconds\nvideos/a b.mp4,nan\n", r"line 2: end_seconds: .* got 'nan'"),
        ("path,start_seconds\nvideos/a b.mp4,-1\n", r"0 or more, got '-1'"),
        ("path,start_seconds,end_seconds\nvideos/a b.mp4,2,1\n", r"end_seconds 1 is not after st"),
        ("path,start_seconds\nclip,1\n", r"line 2: start_seconds and end_seconds need a video, an"),
        ("path\nclip\nclip\n", r"line 3: two clips have the id 'clip' in split 'all'"),
        ("clip_id,path\n../x,clip\n", r"line 2: clip_id '\.\./x' leads out of the dataset"),
        ("path,split\nclip,../x\n", r"line 2: split: expected a word, got '\.\./x'"),
        ("clip_id,path\n/x,clip\n", r"clip_id '/x' leads out of the dataset"),
        ("path,label\nclip,caf\udce9\n", r"line 2: column 'label' is not UTF-8; save the list as"),
        ('path\n"clip\n', r"list\.csv, line 2: unexpected end of data"),
        # Lines of JSON.
        ('{"path": "clip"}\n{"path": \n', r"list\.jsonl, line 2: not JSON: "),
        ('{"file": "clip"}', r"line 1: expected an object with a text 'path', got '\{\"file\""),
        ('{"path": "\\ud800"}', r"line 1: 'path' holds what no file name can: '.*ud800'"),
        ('{"path": "a\\u0000"}', r"line 1: 'path' holds what no file name can: "),
        ('{"path": "clip", "label": "\\ud800"}', r"line 1: column 'label' is not UTF-8"),
        ("[" * 100_000, r"line 1: not JSON: "),
        ('["clip"]', r"line 1: expected an object with a text 'path'"),
        ('{"path": 3}', r"line 1: expected an object with a text 'path'"),
    ],
)
def test_mistakes_are_told_with_their_line(folder, text, message):
    path = write(folder, text, "list.jsonl" if text[:1] in ("{", "[") else "list.csv")
    with pytest.raises(SourceError, match=message):
        find_clips(path)
