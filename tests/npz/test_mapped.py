"""Arrays mapped out of .npz files: right bits, and one sentence about everything else."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.npz.mapped import MappedNpz, open_npz, read_npy

ARRAYS = {
    "floats": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "text": np.array(["a", "bcd"]),
    "empty": np.zeros((0, 5), np.float32),
    "one": np.float64(2.5),
}


@pytest.fixture
def path(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS)
    return tmp_path / "a.npz"


def npy(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version)
    return buffer.getvalue()


def packed(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were(save, tmp_path):
    save(tmp_path / "a.npz", **ARRAYS)
    found = open_npz(tmp_path / "a.npz")
    assert list(found) == list(ARRAYS)
    assert len(found) == len(ARRAYS)
    for name, expected in ARRAYS.items():
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == expected.dtype
    found.verify()
    assert "nothing" not in found
    with pytest.raises(KeyError, match="nothing"):
        found["nothing"]


def test_stored_arrays_are_mapped_once_and_pickled_as_their_path_and_packed_ones_loaded(
    path, tmp_path
):
    found = open_npz(path)
    assert isinstance(found["floats"], np.memmap)
    assert found["floats"] is found["floats"]
    assert not found["floats"].flags.writeable
    np.savez_compressed(tmp_path / "b.npz", **ARRAYS)
    assert not isinstance(open_npz(tmp_path / "b.npz")["floats"], np.memmap)
    data = pickle.dumps(found)
    assert len(data) < 300
    again = pickle.loads(data)
    np.testing.assert_array_equal(again["floats"], ARRAYS["floats"])
    assert list(again) == ["floats", "fortran", "text", "empty", "one"]


def test_what_is_no_archive_is_said_and_a_changed_bit_found_when_all_is_read(tmp_path, path):
    with pytest.raises(FormatError, match="no such file"):
        open_npz(tmp_path / "none.npz")
    cut = tmp_path / "cut.npz"
    cut.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FormatError, match=r"not a readable npz file .*cut off"):
        open_npz(cut)
    data = bytearray(path.read_bytes())
    data[data.index(ARRAYS["floats"].tobytes()) + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="Bad CRC-32"):
        open_npz(path).verify()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(np.zeros(4, np.float32))[:-4], r"of shape \(4,\) float32 needs 16 bytes, .* has 12"),
        (npy(np.zeros(4, np.float32)) + b"1234", "needs 16 bytes, the archive has 20"),
        (b"no array", "magic"),
        (npy(np.array([{}], object)), "an array of Python objects; unpickling it could run code"),
        (npy(np.zeros(2, "datetime64[s]")), r"array of datetime64\[s\]; expected numbers or str"),
        (npy(np.zeros(2, [("a", int)])), "expected numbers or strings"),
        (npy(np.zeros(2), (3, 0)), r"array header of version \(3, 0\); expected 1.0 or 2.0"),
    ],
)
def test_a_member_that_is_not_what_it_says_is_refused(data, words, tmp_path):
    found = open_npz(packed(tmp_path / "a.npz", x=data))
    with pytest.raises(FormatError, match=words):
        found["x"]


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (8, struct.pack("<H", 1), "'floats' is encrypted; expected a plain .npz"),
        (20, struct.pack("<II", 10**6, 10**6), r"'floats' claims 1000000 bytes of \d+"),
    ],
)
def test_an_encrypted_member_or_one_larger_than_its_file_is_refused(path, offset, value, words):
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + offset
    data[place : place + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(FormatError, match=words):
        open_npz(path)["floats"]


def test_a_member_that_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("posemill.npz.mapped._BOMB_BYTES", 3 << 19)
    zeros = np.zeros(1 << 20, np.uint8)
    np.savez_compressed(tmp_path / "bomb.npz", a=zeros, b=zeros)
    np.savez_compressed(tmp_path / "small.npz", x=zeros)
    for read in (lambda found: found["a"], MappedNpz.verify):
        with pytest.raises(FormatError, match=r"would unpack from \d+ to 2097\d+ bytes; refused"):
            read(open_npz(tmp_path / "bomb.npz"))
    assert len(open_npz(tmp_path / "small.npz")["x"]) == 1 << 20


def test_a_packed_member_larger_than_the_free_memory_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "large.npz", x=np.zeros(3 << 20, np.uint8))
    monkeypatch.setattr("posemill.npz.mapped._BOMB_BYTES", 1 << 20)
    monkeypatch.setattr("posemill.npz.mapped._BOMB_RATIO", 10_000)
    monkeypatch.setattr("posemill.npz.mapped.free_memory", lambda: 4 << 20)
    with pytest.raises(FormatError, match=r"'x' would unpack to 3145\d+ bytes, and 4194304 are fr"):
        open_npz(tmp_path / "large.npz")["x"]
    monkeypatch.setattr("posemill.npz.mapped.free_memory", lambda: 5 << 20)
    assert len(open_npz(tmp_path / "large.npz")["x"]) == 3 << 20


def test_the_bytes_of_one_array_are_read_exactly():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.testing.assert_array_equal(read_npy(npy(array)), array)
    for data in (npy(np.asfortranarray(array)), npy(array, (2, 0))):
        np.testing.assert_array_equal(read_npy(data), array)
    for data in (npy(array)[:-1], npy(array) + b"1"):
        with pytest.raises(ValueError, match=r"\(2, 3\) int16 does not fit 1[13] bytes"):
            read_npy(data)
    with pytest.raises(ValueError, match="magic"):
        read_npy(b"something else")
