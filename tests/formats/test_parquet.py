import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posemill.errors import FormatError
from posemill.formats.parquet import ParquetFormat
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import assert_same, make_clip, make_clips

PARQUET = ParquetFormat()


@pytest.fixture
def path(tmp_path):
    PARQUET.write(make_clips(), tmp_path / "a.parquet", recipe=Recipe())
    return tmp_path / "a.parquet"


def test_pandas_and_polars_read_a_row_per_frame(path):
    frame = pytest.importorskip("pandas").read_parquet(path)
    assert len(frame) == 16
    assert frame["clip_id"].tolist()[6] == "deep/er.name"
    points = np.stack(frame["keypoints"]).reshape(16, 143, 3)
    np.testing.assert_array_equal(points[:6], np.nan_to_num(make_clips()[0].points))
    assert pytest.importorskip("polars").read_parquet(path)["split"].to_list()[-1] == "dev"


def test_a_clip_longer_than_a_batch_and_a_row_group_comes_back_whole(tmp_path):
    clips = [make_clip(i, frames=n, skeleton="openpose-18") for i, n in enumerate((5000, 3, 900))]
    PARQUET.write(clips, tmp_path / "a.parquet", recipe=Recipe())
    for clip, back in zip(clips, PARQUET.read(tmp_path / "a.parquet"), strict=True):
        assert_same(clip, back)


def rewrite(path, change):
    pq.write_table(change(pq.read_table(path)), path)
    return path


def with_empty_cell(table):
    column = pa.array([None] * len(table), table["scores"].type)
    return table.set_column(table.column_names.index("scores"), table.field("scores"), column)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["mask"]), "expected column 'mask' .*, got no such column"),
        (lambda t: t.replace_schema_metadata({}), "got one without its header; of a run, name the"),
        (lambda t: t.replace_schema_metadata({"posemill": '{"skeleton": "coco-133"}'}),
         "expected column 'keypoints' fixed_size_list"),
        (lambda t: t.slice(0, 0), "holds no clips"),
        (with_empty_cell, "clip 'clip_1' has empty cells in 'scores'"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_named(path, change, message):
    with pytest.raises(FormatError, match=rf"a\.parquet.*{message}"):
        list(PARQUET.read(rewrite(path, change)))


def test_a_small_file_of_very_many_equal_rows_is_refused(tmp_path):
    clip = make_clip(1, skeleton="openpose-18", frames=2)
    PARQUET.write([clip], tmp_path / "a.parquet", recipe=Recipe())
    one = pq.read_table(tmp_path / "a.parquet").slice(0, 1)
    many = pa.concat_tables([one] * 300).combine_chunks()
    with pq.ParquetWriter(tmp_path / "a.parquet", many.schema, compression="zstd") as writer:
        for _ in range(20):
            writer.write_table(pa.concat_tables([many] * 60))
    with pytest.raises(FormatError, match=r"\d+ bytes would unpack to \d+ values; refused"):
        list(PARQUET.read(tmp_path / "a.parquet"))


def test_a_cut_file_and_a_flipped_bit_are_found(path):
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    with pytest.raises(FormatError, match="not a readable parquet file"):
        list(PARQUET.read(path))
    at = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(7).data_page_offset + 200
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(FormatError, match="could not verify page integrity"):
        list(PARQUET.read(path))


def without_ids(table, *rows):
    """The table with neither split nor id in some rows."""
    for name in ("split", "clip_id"):
        values = [
            None if row in rows else value for row, value in enumerate(table[name].to_pylist())
        ]
        field = table.field(name)
        table = table.set_column(
            table.column_names.index(name), field, pa.array(values, field.type)
        )
    return table


def test_rows_without_an_id_are_left_out_counted_and_said(path, caplog):
    rewrite(path, lambda table: without_ids(table, 0, 1, 15))
    found = list(PARQUET.read(path))
    assert sum(map(len, found)) == 13
    assert "None" not in {clip.clip_id for clip in found}
    assert f"{path}: 3 rows have no clip_id; they are left out" in caplog.text


def test_a_row_group_larger_than_the_free_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("posemill.formats.parquet._BOMB_BYTES", 1000)
    monkeypatch.setattr("posemill.formats.parquet.free_memory", lambda: 10_000)
    PARQUET.write(make_clips(), tmp_path / "a.parquet", recipe=Recipe())
    said = r"a row group would unpack to \d+ bytes, and 10000 are free; write it with smaller row"
    with pytest.raises(FormatError, match=said):
        list(PARQUET.read(tmp_path / "a.parquet"))


def test_a_clip_that_takes_more_memory_than_is_free_is_refused_before_it_is_all_read(
    tmp_path, monkeypatch
):
    clip = make_clip(1, skeleton="openpose-18", frames=2)
    PARQUET.write([clip], tmp_path / "a.parquet", recipe=Recipe())
    one = pq.read_table(tmp_path / "a.parquet").slice(0, 1)
    with pq.ParquetWriter(tmp_path / "a.parquet", one.schema, compression="zstd") as writer:
        for _ in range(5):
            writer.write_table(pa.concat_tables([one] * 1000).combine_chunks())
    monkeypatch.setattr("posemill.formats.parquet._BOMB_BYTES", 1 << 20)
    assert len(next(PARQUET.read(tmp_path / "a.parquet"))) == 5000
    monkeypatch.setattr("posemill.formats.parquet.free_memory", lambda: 3 << 20)
    said = r"clip 'clip_1' has so many frames that 3145728 bytes of free memory are too few"
    with pytest.raises(FormatError, match=said):
        list(PARQUET.read(tmp_path / "a.parquet"))
