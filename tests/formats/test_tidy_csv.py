from pathlib import Path

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format, format_for
from posemill.formats.shared.contract import Recipe
from posemill.formats.tidy_csv import CsvFormat
from posemill.skeletons import get_skeleton
from posemill.testing.formats import make_clip, make_clips

CSV = CsvFormat()
NAMES = list(get_skeleton("openpose-18").point_names)


def test_pandas_reads_a_row_per_point(tmp_path):
    pandas = pytest.importorskip("pandas")
    clips = make_clips()
    CSV.write(clips, tmp_path / "a.csv", recipe=Recipe())
    frame = pandas.read_csv(tmp_path / "a.csv")
    assert list(frame)[:8] == ["clip", "split", "frame", "point", "x", "y", "z", "score"]
    assert len(frame) == 16 * 143
    one = frame[(frame["clip"] == "deep/er.name") & (frame["frame"] == 6)]
    np.testing.assert_array_equal(one[["x", "y", "z"]].to_numpy(np.float32), clips[1].points[1])
    assert tuple(one.point) == get_skeleton("holistic-143").point_names
    np.testing.assert_array_equal(frame.x.isna().to_numpy()[: 6 * 143], ~clips[0].mask.ravel())


def foreign(names, *frames, separator=",", order="clip frame point x y"):
    rows = [
        {"clip": clip, "frame": str(frame), "point": name, "x": f"0.{at + 1:02d}", "y": "0.5"}
        for clip, frame in frames or [("a", 3), ("a", 4)]
        for at, name in enumerate(names)
    ]
    columns = order.split()
    lines = [separator.join(columns), *(separator.join(row[c] for c in columns) for row in rows)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        foreign(NAMES),
        foreign(NAMES, separator=";", order="point y x frame clip"),
        foreign([name.upper() for name in NAMES], separator="\t"),
        foreign([str(number) for number in range(18)]),
        foreign([f"joint {number}" for number in range(18)]),
        "\ufeff" + foreign(NAMES),
    ],
    ids=["plain", "semicolon", "tab", "numbers", "numbered names", "marked"],
)
def test_tables_of_others_are_read(text, tmp_path):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert detect_format(tmp_path / "a.csv").name == "csv"
    (clip,) = CSV.read(tmp_path / "a.csv", size_wh=(640, 480))
    assert (clip.clip_id, clip.split, clip.skeleton_name) == ("a", "all", "openpose-18")
    assert clip.frame_indices.tolist() == [3, 4]
    np.testing.assert_allclose(clip.points[0, :, 0], (np.arange(18) + 1) / 100, atol=1e-6)
    assert (clip.scores == 1).all()
    assert clip.sizes_wh.tolist() == [[640, 480]] * 2


def test_names_decide_where_a_point_stands(tmp_path, caplog):
    (tmp_path / "a.csv").write_text(foreign(NAMES[::-1]))
    (clip,) = CSV.read(tmp_path / "a.csv")
    np.testing.assert_allclose(clip.points[0, :, 0], (18 - np.arange(18)) / 100, atol=1e-6)
    assert not caplog.text, "they name the skeleton: nothing is guessed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("clip,frame", "clip,time"), "expected columns clip, frame, poi"),
        (lambda text: text.replace("a,4,neck,", "a,4,nose,"), "frame 4: expected the same 18 poi"),
        (lambda text: text.replace("0.05", "five"), "line 6: could not convert string to float"),
        (lambda text: text.replace("0.05", "inf"), "clip 'a'"),
        (lambda text: text.replace("a,4,nose", "a,4.5,nose"), "line 20: invalid literal for int"),
        (lambda text: text + "a,5\n", "line 38: expected 5 fields as in the first line, got 2"),
        (lambda text: text.splitlines()[0] + "\n", "holds no clips"),
        (
            lambda text: text.replace("x,y\n", "x,y,info\n").replace(
                "0.5\n", '0.5,"{""clip"": {""fps"": NaN}}"\n'
            ),
            "NaN is not a JSON number",
        ),
        (lambda text: text + "x" * (1 << 20), "a line has 1048576 characters or more"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(tmp_path, change, said):
    (tmp_path / "a.csv").write_text(change(foreign(NAMES)))
    with pytest.raises(FormatError, match=rf"a\.csv.*{said}"):
        list(CSV.read(tmp_path / "a.csv"))


def test_more_than_a_field_can_hold_is_refused(tmp_path):
    clip = make_clip(1, extra={"note": "x" * 70_000})
    with pytest.raises(FormatError, match=r"clip_1.*expected at most 65536: cut it"):
        CSV.write([clip], tmp_path / "a.csv", recipe=Recipe())


def test_the_ending_of_a_file_names_its_format_or_it_is_said_that_it_does_not():
    expected = {"a.npz": "npz", "a.pkl": "pkl", "a.PKL": "pkl", "a.h5": "hdf5", "a.hdf5": "hdf5",
                "a.tar": "webdataset", "a.parquet": "parquet", "a.csv": "csv"}  # fmt: skip
    assert {name: format_for(Path(name)) for name in expected} == expected
    with pytest.raises(FormatError, match=r"a\.json: '\.json' could be .*coco; give the format by"):
        format_for(Path("a.json"))
    with pytest.raises(FormatError, match=r"out: its ending names none; give the format by to"):
        format_for(Path("out"))


def test_names_of_another_skeleton_with_as_many_points_are_refused(tmp_path):
    human36m = ["hip", "right_hip", "right_knee", "right_foot", "left_hip", "left_knee",
                "left_foot", "spine", "thorax", "nose", "head", "left_shoulder", "left_elbow",
                "left_wrist", "right_shoulder", "right_elbow", "right_wrist"]  # fmt: skip
    path = tmp_path / "a.csv"
    path.write_text(foreign(human36m))
    with pytest.raises(FormatError, match="'hip'"):
        list(CSV.read(path))
    path.write_text(foreign(list(map(str, range(17)))))
    assert [clip.skeleton_name for clip in CSV.read(path)] == ["coco-17"]


def test_a_table_sorted_by_frame_is_refused_instead_of_giving_clips_twice(tmp_path):
    rows = [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    path = tmp_path / "a.csv"
    path.write_text(foreign(NAMES, *rows))
    with pytest.raises(FormatError, match="clip 'a' do not follow each other"):
        list(CSV.read(path))
    path.write_text(foreign(NAMES, *sorted(rows)))
    assert [(clip.clip_id, len(clip)) for clip in CSV.read(path)] == [("a", 2), ("b", 2)]
