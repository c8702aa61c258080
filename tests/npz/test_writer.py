"""Archives written column by column: what numpy and zip readers find in them."""

import zipfile

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.npz import writer as archive_writer
from posemill.npz.mapped import open_npz
from posemill.npz.writer import ArchiveWriter

FLOATS = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
INTS = np.arange(5, dtype=">i8")


@pytest.mark.parametrize("num_rows", [None, 5])
@pytest.mark.parametrize("chars", [1, 5, 1 << 18])
def test_numpy_reads_what_was_written(num_rows, chars, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_writer, "_CHARS", chars)
    path = tmp_path / "a.npz"
    words = ["", "one", "two\r\n", "", "\U0001f600x", "\udcff"]
    with ArchiveWriter(path, num_rows=num_rows) as archive:
        for rows in (slice(0, 2), slice(2, 2), slice(2, 5)):
            archive.append("floats", FLOATS[rows])
            archive.append("numbers", INTS[rows])
        for some in (words[:4], [], words[4:]):
            archive.extend("names", some)
        archive.extend("nothing", ["", ""])
        archive.finish({"whole": np.eye(2)})
    with np.load(path) as found:
        assert list(found) == ["floats", "numbers", "whole", "names", "nothing"]
        np.testing.assert_array_equal(found["floats"], FLOATS)
        np.testing.assert_array_equal(found["numbers"], INTS)
        np.testing.assert_array_equal(found["whole"], np.eye(2))
        assert found["names"].tolist() == words
        assert [found[name].dtype.str for name in found] == ["<f4", "<i8", "<f8", "<U5", "<U1"]
    assert list(tmp_path.iterdir()) == [path]
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None
        assert {entry.compress_type for entry in zipped.infolist()} == {zipfile.ZIP_STORED}
    arrays = open_npz(path)
    arrays.verify()
    assert [arrays[name].offset % 64 for name in arrays] == [0] * 5


def test_rows_of_another_shape_and_strings_with_nul_are_refused_and_files_closed(tmp_path):
    with ArchiveWriter(tmp_path / "a.npz", num_rows=3) as archive:
        archive.append("points", np.zeros((2, 2)))
        with pytest.raises(ValueError, match=r"^points: expected rows of \(2,\), got \(1, 3\)$"):
            archive.append("points", np.zeros((1, 3)))
        with pytest.raises(ValueError, match=r"^points: expected 3 rows, got 2$"):
            archive.finish({})
    with ArchiveWriter(tmp_path / "a.npz", num_rows=1) as archive:
        for name in "ab":
            archive.append(name, np.zeros(1))
        with pytest.raises(FormatError, match="holds a NUL character"):
            archive.extend("c", ["a", "b\0" + "c" * 300])
        files = [*archive._columns.values(), *archive._texts.values()]
    assert [each.file.closed for each in files] == [True] * 3
