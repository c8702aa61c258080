from __future__ import annotations

from pathlib import Path

import pytest

from posemill.errors import TrainingError
from posemill.training.data.annotations import Annotation, read_annotations


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_csv_gives_label_and_split(tmp_path):
    path = write(tmp_path / "labels.csv", "video_id,split,label\na,train,yes\nb,val,no\n")
    assert dict(read_annotations(path)) == {
        "a": Annotation("yes", "train"),
        "b": Annotation("no", "dev"),
    }


def test_a_byte_order_mark_and_spaces_do_no_harm(tmp_path):
    path = write(tmp_path / "labels.csv", "\ufeffvideo_id, label\na, yes\n")
    assert read_annotations(path)["a"].label == "yes"


def test_clips_are_found_without_their_ending_and_without_the_folder_1(tmp_path):
    path = write(tmp_path / "labels.csv", "path,label\nhello/hello_1.mp4,hello\n")
    found = read_annotations(path).match(["hello/hello_1", "hello/hello_1/1", "hello/hello_2"])
    assert list(found) == ["hello/hello_1", "hello/hello_1/1"]


@pytest.mark.parametrize("ending", [".mp4", ".avi", ".jpeg", ".pose", ".MP4"])
def test_endings_of_clips_may_be_left_out(tmp_path, ending):
    path = write(tmp_path / "labels.csv", f"path,label\nx\\a.b{ending},one\n1,two\n")
    found = read_annotations(path)
    matched = found.match(["x/a.b", "1", "x/a"])
    assert matched["x/a.b"].label == "one"
    assert matched["1"].label == "two", "a clip of this name, not a folder"
    assert "x/a" not in matched, "what is no ending of a clip stays"


def test_a_bare_name_is_enough_where_one_clip_and_one_row_have_it(tmp_path):
    rows = "a/one.mp4,1\na/two.mp4,2\nb/two.mp4,3\nthree,4\n"
    found = read_annotations(write(tmp_path / "labels.csv", "path,label\n" + rows))
    matched = found.match(["x/one.mp4", "c/two.mp4", "y/three", "z/three", "b/two.mp4", "four"])
    assert {name: row.label for name, row in matched.items()} == {
        "x/one.mp4": "1", "b/two.mp4": "3",
    }  # fmt: skip


@pytest.mark.parametrize("column", ["video_id", "clip_id", "path", "name", "id"])
@pytest.mark.parametrize("label", ["label", "class", "gloss", "orth"])
def test_columns_may_have_other_names(tmp_path, column, label):
    found = read_annotations(write(tmp_path / "labels.csv", f"{column},{label}\na,x\n"))
    assert dict(found) == {"a": Annotation("x")}


@pytest.mark.parametrize("label", ["orth", "annotation", "gloss", "label"])
def test_the_split_of_a_corpus_file_is_in_its_name(tmp_path, label):
    text = f"id|{label}\na|ONE TWO\na|ONE TWO\n"
    assert dict(read_annotations(write(tmp_path / "P.dev.corpus.csv", text))) == {
        "a": Annotation("ONE TWO", "dev")
    }
    (plain,) = read_annotations(write(tmp_path / "P.corpus.csv", text)).values()
    assert plain.split == ""


def test_a_folder_has_its_labels_in_one_of_several_places(tmp_path):
    write(tmp_path / "labels.csv", "id,label\na,x\n")
    assert read_annotations(tmp_path)["a"].label == "x"
    write(tmp_path / "manual" / "P.dev.corpus.csv", "id|orth\na|y\n")
    assert read_annotations(tmp_path)["a"].label == "y"
    write(tmp_path / "annotations" / "manual" / "P.dev.corpus.csv", "id|orth\na|z\n")
    assert read_annotations(tmp_path)["a"].label == "z"
    write(tmp_path / "P.dev.corpus.csv", "id|orth\na|w\n")
    assert read_annotations(tmp_path)["a"].label == "w"


def test_an_ending_that_two_clips_share_decides_nothing(tmp_path):
    path = write(tmp_path / "labels.csv", "path,label\na.mp4,one\na.avi,two\n")
    assert list(read_annotations(path).match(["a.avi", "a"])) == ["a.avi"]


def test_corpus_files_are_read_without_quoting(tmp_path):
    head = "name|video|start|end|speaker|orth|translation\n"
    folder = tmp_path / "annotations" / "manual"
    write(folder / "P.train.corpus.csv", head + 'x|x/1/*.png|-1|-1|S|REGEN SCHNEE|ein " fehlt\n')
    write(folder / "P.dev.corpus.csv", head + "y|y/1/*.png|-1|-1|S|SONNE|sonne\n")
    found = read_annotations(tmp_path)
    assert found["x"] == Annotation("REGEN SCHNEE", "train")
    assert found["y"] == Annotation("SONNE", "dev")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a column 'video_id'"),
        ("video_id,label\n", "expected a header"),
        ("clip,label\na,b\n", "expected a column 'video_id'"),
        ("video_id,name\na,b\n", "expected a column 'label'"),
        ("video_id,label\na,\n", "line 2: video_id or label is empty"),
        ("video_id,label\n ,x\n", "line 2: video_id or label is empty"),
        ("video_id,label\na,x\na,y\n", "line 3: 'a' is 'y' here and 'x' above"),
    ],
)
def test_bad_labels_are_refused_with_their_line(tmp_path, text, message):
    with pytest.raises(TrainingError, match=message):
        read_annotations(write(tmp_path / "labels.csv", text))


def test_missing_labels_and_other_encodings_are_refused(tmp_path):
    with pytest.raises(TrainingError, match=r"no labels at .*: expected a CSV file"):
        read_annotations(tmp_path / "labels.csv")
    with pytest.raises(TrainingError, match=r"expected labels.csv or \*.corpus.csv"):
        read_annotations(tmp_path)
    (tmp_path / "labels.csv").write_bytes(b"video_id,label\na,\xff\n")
    with pytest.raises(TrainingError, match="neither UTF-8, UTF-16 nor GBK text"):
        read_annotations(tmp_path / "labels.csv")
