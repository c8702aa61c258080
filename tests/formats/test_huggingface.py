import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posemill.errors import FormatError
from posemill.formats.huggingface import HuggingFaceFormat
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

HF = HuggingFaceFormat()


@pytest.fixture
def path(tmp_path):
    HF.write(make_clips(), tmp_path / "out", recipe=Recipe())
    return tmp_path / "out"


@pytest.mark.filterwarnings("ignore")
def test_load_dataset_reads_the_parquet_files(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    files = {split: str(path / "data" / f"{split}-*.parquet") for split in ("train", "dev")}
    loaded = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 2, "dev": 2}
    clip = make_clips()[0]
    row = loaded["train"].with_format("numpy")[0]
    assert row["clip_id"] == "clip_1"
    assert row["keypoints"].shape == (6, 143, 3)
    np.testing.assert_array_equal(row["keypoints"], np.nan_to_num(clip.points))
    np.testing.assert_array_equal(row["mask"], clip.mask)
    assert loaded["train"][1]["image_paths"][0] == "clip_2/images0001.png"


def test_clips_without_a_split_load_as_full_and_come_back_as_all(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    summary = HF.write([make_clip(1, split="all")], tmp_path / "out", recipe=Recipe())
    assert any("'full'" in loss for loss in summary.losses)
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"full": 1}
    assert [clip.split for clip in HF.read(tmp_path / "out")] == ["all"]
    clips = [make_clip(1, split="all"), make_clip(2, split="full")]
    with pytest.raises(FormatError, match="'full'"):
        HF.write(clips, tmp_path / "out", recipe=Recipe())
    HF.write(clips[1:], tmp_path / "out", recipe=Recipe())
    assert [clip.split for clip in HF.read(tmp_path / "out")] == ["full"]


def test_no_footer_that_contradicts_itself_ends_the_process(path):
    # In a process of its own: what ended it was no error of Python.
    script = """
import sys
from pathlib import Path
from posemill.errors import FormatError
from posemill.formats.huggingface import HuggingFaceFormat
path = Path(sys.argv[1])
file = path / "data" / "dev-00000-of-00001.parquet"
whole = file.read_bytes()
footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for at in range(footer, len(whole) - 8):
    if whole[at] % 16 == 6 and whole[at] < 128:  # a list of integers: say that there is one more
        file.write_bytes(whole[:at] + bytes([whole[at] + 16]) + whole[at + 1 :])
        try:
            list(HuggingFaceFormat().read(path))
        except FormatError as error:
            print(error)
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "histogram size mismatch" in done.stdout


def test_files_that_do_not_fit_are_named(path, tmp_path):
    file = path / "data" / "dev-00000-of-00001.parquet"
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["scores"]), file)
    with pytest.raises(FormatError, match=r"dev-00000.*expected column 'scores' list"):
        list(HF.read(path))
    pq.write_table(table.replace_schema_metadata({}), file)
    with pytest.raises(FormatError, match=r"dev-00000.*without its header"):
        list(HF.read(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match=r"empty.*expected data/SPLIT-00000"):
        list(HF.read(tmp_path / "empty"))


def test_rows_without_an_id_are_left_out_counted_and_said(path, caplog):
    (file, *_) = sorted(path.glob("data/*.parquet"))
    table = pq.read_table(file)
    ids = pa.array([None, *table["clip_id"].to_pylist()[1:]], pa.string())
    table = table.set_column(table.column_names.index("clip_id"), table.field("clip_id"), ids)
    pq.write_table(table, file)
    before = sum(pq.read_metadata(each).num_rows for each in path.glob("data/*.parquet"))
    found = [clip.clip_id for clip in HuggingFaceFormat().read(path)]
    assert len(found) == before - 1
    assert "None" not in found
    assert f"{file}: 1 rows have no clip_id; they are left out" in caplog.text
