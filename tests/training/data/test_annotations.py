import pytest

from posemill.errors import TrainingError
from posemill.training.data.annotations import Annotation, read_annotations


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_csv_gives_label_and_split_and_a_byte_order_mark_and_spaces_do_no_harm(tmp_path):
    text = "\ufeffvideo_id, split, label\na, train, yes\nb,val,no\n"
    assert dict(read_annotations(write(tmp_path / "labels.csv", text))) == {
        "a": Annotation("yes", "train"),
        "b": Annotation("no", "dev"),
    }


@pytest.mark.parametrize(
    ("rows", "clips", "labels"),
    [
        ("hello/hello_1.mp4,1\n", ["hello/hello_1", "hello/hello_1/1", "hello/hello_2"],
         ["1", "1", None]),
        # What is no ending of a clip stays, and a clip may be called 1.
        ("x\\a.b.MP4,1\n1,2\nc.pose,3\nd.jpeg,4\n", ["x/a.b", "1", "x/a", "c", "d"],
         ["1", "2", None, "3", "4"]),
        # A bare name is enough where one clip and one row have it.
        ("a/one.mp4,1\na/two.mp4,2\nb/two.mp4,3\nthree,4\n",
         ["x/one.mp4", "c/two.mp4", "y/three", "z/three", "b/two.mp4", "four"],
         ["1", None, None, None, "3", None]),
        # A name that two rows share without their endings decides nothing.
        ("a.mp4,1\na.avi,2\n", ["a.avi", "a"], ["2", None]),
    ],
)  # fmt: skip
def test_clips_are_found_without_ending_without_folder_1_and_by_bare_name(
    tmp_path, rows, clips, labels
):
    found = read_annotations(write(tmp_path / "labels.csv", "path,label\n" + rows)).match(clips)
    assert [found[name].label if name in found else None for name in clips] == labels


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
    for folder in ("manual", "annotations/manual", "."):  # each goes before those above
        write(tmp_path / folder / "P.dev.corpus.csv", f"id|orth\na|{folder}\n")
        assert read_annotations(tmp_path)["a"].label == folder


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
    labels = tmp_path / "labels.csv"
    with pytest.raises(TrainingError, match=r"no labels at .*: expected a CSV file"):
        read_annotations(labels)
    with pytest.raises(TrainingError, match=r"expected labels.csv or \*.corpus.csv"):
        read_annotations(tmp_path)
    labels.write_bytes(b"video_id,label\na,\xff\n")
    with pytest.raises(TrainingError, match="neither UTF-8, UTF-16 nor GBK text"):
        read_annotations(labels)
