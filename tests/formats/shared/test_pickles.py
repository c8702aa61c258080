import builtins
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.files import reading
from posemill.formats.shared.pickles import array_of, has_annotations, load_pickle


def read(path, data):
    path.write_bytes(data)
    with reading(path, "pkl"):
        return load_pickle(path)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_out_of_every_protocol(tmp_path, protocol):
    shared_list = [1, 2]
    value = {
        "list": [1, -5, 300, 70000, 2**40, -(2**40), 1.5, None, True, False, "ä\n€", ()],
        "nested": {"a": [shared_list, shared_list], 3: (1, (2, 3), [4] * 5)},
        "long": "x" * 5000,
    }
    assert read(tmp_path / "p", pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i8", "|b1", "<U7", "|u1"])
def test_arrays_come_out_of_every_protocol(tmp_path, protocol, dtype):
    array = np.arange(250, 256).reshape(2, 3).astype(dtype)
    value = [array, np.asfortranarray(array), array]
    for item in read(tmp_path / "p", pickle.dumps(value, protocol=protocol)):
        np.testing.assert_array_equal(array_of(item), array)
        assert array_of(item).dtype == array.dtype


def test_numpy_numbers_become_plain_ones(tmp_path):
    value = [np.float32(0.5), np.int64(7), np.str_("ab")]
    assert read(tmp_path / "p", pickle.dumps(value)) == [0.5, 7, "ab"]


class Attack:
    """Calls a function with arguments when it is unpickled."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "args"),
    [(os.system, ("touch {mark}",)), (builtins.eval, ("open({mark!r}, 'w')",)),
     (builtins.open, ("{mark}", "w")), (os.mkdir, ("{mark}",)), (builtins.getattr, ("x", "y")),
     (np.load, ("{mark}",)), (OrderedDict, ())],
)  # fmt: skip
def test_nothing_is_ever_called(tmp_path, protocol, function, args):
    mark = str(tmp_path / "mark")
    attack = Attack(function, *(argument.format(mark=mark) for argument in args))
    with pytest.raises(FormatError, match=r"p: .*the pickle (asks .*nothing is run|has the inst)"):
        read(tmp_path / "p", pickle.dumps({"keypoints": [attack]}, protocol=protocol))
    assert not Path(mark).exists()


def key_that_takes_forever():
    deep = b")" + b"2\x86" * 60  # a tuple of twice itself, sixty times
    return b"\x80\x03}" + deep + b"K\x01s."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a pickle, got an empty file"),
        (b"\x80\x03", "the pickle is cut off"),
        (b"\x80\x03B\xff\xff\xff\xffabc.", "cut off: 4294967295 bytes announced at byte 7"),
        (b"\x80\x03\x8e" + struct.pack("<Q", 2**62) + b".", "bytes announced"),
        (b"\x80\x03K\x01r\xff\xff\xff\x7fj\xff\xff\xff\x7e.", "KeyError"),
        (b"\x80\x03e.", "IndexError"),
        (b"\x80\x03.", "IndexError"),
        (b"\x80\x03(0.", "IndexError"),
        (b"\x80\x03K\x01(K\x02e.", "appends to int"),
        (b"\x80\x03](K\x02K\x01u.", "sets items of list"),
        (b"\x80\x03K\x01K\x02b.", "gives a state to int"),
        (b"\x80\x03K\x01K\x02R.", "calls something that is not a numpy array"),
        (b"\x80\x03K\x01\x82\x01.", r"the instruction b'\\x82' at byte 4"),
        (b"S'text'\n.", r"the instruction b'S' at byte 0"),
        (b"(ios\nsystem\n.", r"the instruction b'i' at byte 1"),
        (b"\x80\x03\x8b\x41\x00\x00\x00" + b"\x01" * 65 + b".", "a number of 513 bits"),
        (b"I" + b"9" * 400 + b"\n.", "a number of 1329 bits"),
        (b"\x80\x03" + b"]" * 20_000, "makes more lists than its size explains"),
        (b"\x80\x04N" + b"\x94" * 20_000, "makes more lists than its size explains"),
        (key_that_takes_forever(), "a key of tuple; expected text"),
        (pickle.dumps(np.array([{}], object)), "arrays of 'O8'"),
        (pickle.dumps(np.zeros(2, [("a", "f4")])), "arrays of 'V4'"),
        (pickle.dumps(np.zeros(2, "M8[s]"), 3), "arrays of 'M8'"),
        (
            pickle.dumps(np.zeros((2, 3), "f4"), 3).replace(b"K\x02K\x03", b"K\xc8K\x03"),
            r"array \(200, 3\) float32 does not fit 24 bytes",
        ),
    ],
)
def test_broken_and_hostile_programs_are_refused(tmp_path, data, message, monkeypatch):
    monkeypatch.setattr("posemill.formats.shared.pickles._MOST_LISTS", 10_000)
    with pytest.raises(FormatError, match=rf"p: .*{message}"):
        read(tmp_path / "p", data)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"annotations": []}, True),
        ({"annotations": [{"keypoints": 1}]}, True),
        ({"keypoints": ["annotations"]}, False),
        ({"x" * 4000: 1, "annotations": []}, True),
        ({"x" * 4096: 1, "annotations": []}, False),
        ({"split": {"train": ["a"] * 4096}, "annotations": []}, True),
        ({"x" * 60: 1, "split": {}}, False),
        ({"split": {"keypoints": []}}, False),
        ({"train": {"image_paths": ["/data/annotations/1.png"]}}, False),
    ],
)
def test_pickles_of_pyskl_are_known_by_their_first_words(value, expected):
    assert has_annotations(pickle.dumps(value)) is expected


@pytest.mark.parametrize("begin", [b"\x8c\x0b", b"U\x0b", b"X\x0b\0\0\0", b"V"])
def test_a_word_of_pyskl_is_known_however_it_is_spelled(begin):
    start = b"\x80\x02}(" + begin + b"annotations"
    assert has_annotations(start + b"\n]X\x09\0\0\0keypoints")
    assert not has_annotations(b"}(X\x09\0\0\0keypoints" + start + b"\n]")
    assert has_annotations(start + b"s\n]") == (begin != b"V")
