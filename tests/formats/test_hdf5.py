import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import FormatError, MissingExtraError
from posemill.formats.hdf5 import DeferredErrorFile, Hdf5Format
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip, make_clips

h5py = pytest.importorskip("h5py")
HDF5 = Hdf5Format()


@pytest.fixture
def path(tmp_path):
    HDF5.write(make_clips(), tmp_path / "a.h5", recipe=Recipe())
    return tmp_path / "a.h5"


def test_h5py_reads_sliced_what_we_write(path):
    clips = make_clips()
    with h5py.File(path) as file:
        assert file["keypoints"].shape == (16, 143, 3)
        rows = slice(file["offsets"][1], file["offsets"][1] + file["lengths"][1])
        np.testing.assert_array_equal(file["keypoints"][rows], np.nan_to_num(clips[1].points))
        np.testing.assert_array_equal(file["mask"][rows], clips[1].mask)
        assert file["clip_ids"].asstr()[1] == "deep/er.name"
        assert file["keypoint_names"].asstr()[0] == "face_0"
        assert '"skeleton": "holistic-143"' in file.attrs["posemill"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mask", np.ones((3, 143), bool), r"expected mask of shape \(6, 143\)"),
        ("scores", np.ones((16, 143), np.int8), "expected scores .*kind f.*got int8"),
        ("keypoints", np.ones((16, 9, 3), "f4"), r"expected 143 points a frame, got 9"),
        ("lengths", np.array([6, 3, 6, 900]), "clip 3 is frames 15 to 915"),
        ("offsets", np.array([-1, 0, 0, 0]), "clip 0 is frames -1 to 5"),
        ("splits", np.array([b"a"], "O"), "expected splits of shape .4"),
    ],
)
def test_sets_that_do_not_fit_are_named(path, name, value, message):
    with h5py.File(path, "a") as file:
        del file[name]
        kind = h5py.string_dtype() if value.dtype == object else value.dtype
        file.create_dataset(name, data=value, dtype=kind)
    with pytest.raises(FormatError, match=message):
        list(HDF5.read(path))


def test_a_set_larger_than_its_file_is_refused(path):
    with h5py.File(path, "a") as file:
        del file["frame_index"]
        file.create_dataset("frame_index", (10**12,), np.int64, chunks=(1024,))
    with pytest.raises(FormatError, match=r"'frame_index' \(1000000000000,\) is larger than"):
        list(HDF5.read(path))


def test_data_in_another_file_is_not_followed(path):
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["mask"] = np.ones((16, 143), bool)
    with h5py.File(path, "a") as file:
        del file["mask"]
        file["mask"] = h5py.ExternalLink("other.h5", "/mask")
    with pytest.raises(FormatError, match="expected a dataset 'mask'"):
        list(HDF5.read(path))
    with h5py.File(path, "a") as file:
        del file["mask"]
        layout = h5py.VirtualLayout((16, 143), bool)
        layout[:] = h5py.VirtualSource("other.h5", "mask", (16, 143))
        file.create_virtual_dataset("mask", layout)
    with pytest.raises(FormatError, match="the data of 'mask' is in another file"):
        list(HDF5.read(path))


def test_a_flipped_bit_is_found_by_the_checksum_and_a_cut_file_is_refused(path):
    data = bytearray(path.read_bytes())
    clip = make_clip(1, extra={"signer": "ä", "takes": [1, 2]})
    at = bytes(data).index(np.nan_to_num(clip.points[0]).tobytes()[:64])
    data[at + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="not a readable hdf5 file"):
        list(HDF5.read(path))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(FormatError, match=r"not a readable hdf5 file .*truncated"):
        list(HDF5.read(path))


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        MissingExtraError, match=r"needs 'h5py', .*; run: pip install 'posemill\[form"
    ):
        HDF5.write(make_clips(), tmp_path / "a.h5", recipe=Recipe())


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from posemill.testing.formats import make_clip
from posemill.formats.shared.contract import Recipe
from posemill.formats.hdf5 import Hdf5Format

out = Path(sys.argv[1])
clips = [make_clip(i, frames=20) for i in range(8)]
Hdf5Format().write(clips[:1], out, recipe=Recipe())
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in (0, 1000, 60_000, 110_000, 230_000, 240_000, 300_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        Hdf5Format().write(clips, out, recipe=Recipe())
    except OSError as error:
        print(error.strerror)
"""


def test_a_disk_that_is_full_gives_one_error_and_keeps_the_old_file(tmp_path):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.h5"), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["File too large"] * 7
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
    assert [clip.clip_id for clip in HDF5.read(tmp_path / "a.h5")] == ["clip_0"]


def read(file, num_bytes):
    data = bytearray(num_bytes)
    assert file.readinto(data) == num_bytes
    return bytes(data)


def test_what_was_written_is_read_back_and_a_full_disk_told_when_asked(tmp_path):
    with DeferredErrorFile(tmp_path / "a") as file:
        assert file.write(memoryview(b"abcdef")) == 6
        assert (file.seek(2), read(file, 3), file.tell()) == (2, b"cde", 5)
        assert file.seek(1, os.SEEK_CUR) == 6
        file.truncate(4)
        assert file.seek(0, os.SEEK_END) == 4
        file.seek(3)
        assert (read(file, 3), file.tell()) == (b"d\0\0", 6)
        file.flush()
        file.raise_failure()
    assert (tmp_path / "a").read_bytes() == b"abcd"
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with DeferredErrorFile(tmp_path / "a") as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4, limits[1]))
        try:
            assert file.write(memoryview(b"abcdef")) == 6
            assert file.write(memoryview(b"gh")) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        file.seek(5)
        file.write(memoryview(b"F"))
        file.truncate(2)
        assert file.seek(0, os.SEEK_END) == 8
        file.seek(0)
        assert read(file, 9) == b"abcdeFgh\0"
        with pytest.raises(OSError, match="File too large"):
            file.raise_failure()
