from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from small_sets import assert_same_state
from torch.utils.data import DataLoader, Subset

import posemill
from posemill.errors import MissingExtraError, TrainingError
from posemill.training.data.dataset_cache import describe_uses, live_uses, pack, unpack

STORES = ("mmap", "ram", "hdf5")


class Slow:
    """Samples that count how often they are made, in a file: processes do not share lists."""

    def __init__(self, log, count=12):
        self.log, self.count = log, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise AssertionError(index)
        with self.log.open("a") as handle:
            handle.write(f"{index}\n")
        return {"x": torch.full((3, 4), float(index)), "name": f"sample {index}", "i": index}

    def made(self):
        """Return the samples that were made, in order."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []


@pytest.fixture
def slow(tmp_path):
    return Slow(tmp_path / "made.txt")


@pytest.mark.parametrize("store", STORES)
def test_every_sample_is_made_once_and_found_by_the_next_training(slow, tmp_path, store):
    for _ in range(2):
        cache = posemill.cache_dataset(slow, key="a", folder=tmp_path / "c", store=store)
        for _ in range(2):
            for index in (3, 0, -1, 3):
                sample = cache[index]
                assert torch.equal(sample["x"], torch.full((3, 4), float(index % 12)))
                assert sample["name"] == f"sample {index % 12}"
                sample["x"] += 1  # a user's augmentation: the cache does not change
    assert slow.made() == [3, 0, 11]
    assert cache.count_kept() == 3
    assert len(cache) == 12
    with pytest.raises(IndexError, match="sample 12 of 12"):
        cache[12]


def test_another_key_and_another_number_of_samples_are_another_cache(slow, tmp_path):
    one = posemill.cache_dataset(slow, key={"size": 3, "of": "masks"}, folder=tmp_path)
    same = posemill.cache_dataset(slow, key={"of": "masks", "size": 3}, folder=tmp_path)
    other = posemill.cache_dataset(slow, key={"size": 4, "of": "masks"}, folder=tmp_path)
    longer = posemill.cache_dataset(Slow(slow.log, 13), key=one.key, folder=tmp_path)
    for cache in (one, same, other, longer):
        cache[5]
    assert slow.made() == [5, 5, 5]
    assert len({cache.folder for cache in (one, same, other, longer)}) == 3


@pytest.mark.parametrize(("store", "start"), [("mmap", "fork"), ("hdf5", "fork"), ("ram", "spawn")])
@pytest.mark.usefixtures("warm_children")
def test_loader_processes_share_a_cache(slow, tmp_path, store, start):
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", store=store)
    cache[0]  # this process has files open when the others start
    loader = DataLoader(cache, batch_size=2, num_workers=2, multiprocessing_context=start,
                        persistent_workers=start == "spawn")  # fmt: skip
    for _ in range(2):
        rows = list(loader)
        assert torch.cat([row["i"] for row in rows]).tolist() == list(range(12))
        assert torch.cat([row["x"][:, 0, 0] for row in rows]).tolist() == list(range(12))
    assert cache[7]["i"] == 7
    assert sorted(slow.made()) == list(range(12))
    assert cache.count_kept() == 12


def test_a_limit_is_held_and_what_has_no_room_is_made_anew(slow, tmp_path):
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", limit_gb=1000e-9)
    for _ in range(2):
        assert [cache[index]["i"] for index in range(12)] == list(range(12))
    assert 0 < cache.count_kept() < 12
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= 1000
    assert len(slow.made()) == 24 - cache.count_kept()


def test_a_file_that_vanishes_while_the_limit_is_checked_is_no_full_disk(slow, tmp_path):
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", limit_gb=1)
    # Listed, but stat() fails: as a file that another process has just renamed.
    for name in (".k.1-2.tmp", f"99{cache._suffix}"):
        (cache.folder / name).symlink_to(tmp_path / "gone")
    assert [cache[index]["i"] for index in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert slow.made() == [1, 2]


def test_a_full_disk_ends_the_keeping_and_not_the_training(slow, tmp_path, monkeypatch):
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c")
    cache[0]
    real = Path.write_bytes

    def half(path, data):
        real(path, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    assert [cache[index]["i"] for index in (1, 2, 0)] == [1, 2, 0]
    names = {path.name for path in cache.folder.iterdir()}
    assert names == {".posemill-output", "0.sample", "no-room"}
    assert cache.lacks_room()


@pytest.mark.parametrize("store", ["mmap", "hdf5"])
def test_damaged_bytes_and_files_of_something_else_are_made_again(slow, tmp_path, store):
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", store=store)
    cache[1], cache[2]
    one, two = (cache.folder / f"{number}{cache._suffix}" for number in (1, 2))
    data = one.read_bytes()
    where = data.index(b"sample 1")
    one.write_bytes(data[:where] + b"Sample 9" + data[where + 8 :])
    two.write_bytes(two.read_bytes()[:-1])
    others = [("other", [1]), ("sample", [1.5]), ("sample", 3), ("sample", "text"), ("sample/x", 1)]
    if store == "hdf5":
        for index, (name, content) in enumerate(others, 3):
            with pytest.importorskip("h5py").File(cache.folder / f"{index}.h5", "w") as file:
                file[name] = content
    wanted = [*range(1, 8)] * 2
    assert [cache[index]["name"] for index in wanted] == [f"sample {index}" for index in wanted]
    assert slow.made() == [1, 2, *range(1, 8)]


FILLER = """
import sys, time
import numpy as np, posemill
class Data:
    def __len__(self): return 100000
    def __getitem__(self, i): return np.full((50, 40), i % 5000)
cache = posemill.cache_dataset(Data(), key="k", folder=sys.argv[1])
for i in range(100000):
    cache[i]
    if i == 30:
        print("ready", flush=True)
"""


def test_killed_at_any_moment_it_holds_what_was_whole(tmp_path, start_process):
    command = [sys.executable, "-c", FILLER, str(tmp_path)]
    for number in range(2):
        process = start_process(command, stdout=subprocess.PIPE, env=os.environ)
        process.stdout.readline()
        time.sleep(0.05 + 0.037 * number)  # the moment of the kill, anywhere in the work
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    class Data:
        def __len__(self):
            return 100000

        def __getitem__(self, index):
            raise KeyError(index)

    cache = posemill.cache_dataset(Data(), key="k", folder=tmp_path)
    count = 0
    while True:
        try:
            sample = cache[count]
        except KeyError:
            break
        np.testing.assert_array_equal(sample, np.full((50, 40), count % 5000))
        count += 1
    assert count > 20, "the first ones were kept"


@pytest.mark.parametrize("workers", [0, 1])
def test_the_end_says_what_is_kept_and_what_had_no_room_in_whatever_process(
    slow, tmp_path, workers
):
    options = {"key": f"room {workers}", "folder": tmp_path / "c"}
    cache = posemill.cache_dataset(slow, **options)
    cache[5]
    before = live_uses()
    part = Subset(cache, [0, 1])  # wrapped, as people do
    part[0], part[1]
    lines = [line for line in describe_uses(before) if f"room {workers}" in line]
    assert lines == [f"cache 'room {workers}': 3 of 12 samples are kept, 2 of them new"]
    cache = posemill.cache_dataset(slow, **options, limit_gb=1000e-9)
    list(
        DataLoader(cache, num_workers=workers, multiprocessing_context="fork" if workers else None)
    )
    lines = [line for line in describe_uses(before) if f"room {workers}" in line]
    assert "limit_gb" in lines[-1]
    assert not posemill.cache_dataset(slow, **options).lacks_room()


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (3, {}, r"expected len\(\) and \[index\], got int"),
        (None, {"key": ""}, "key: expected what"),
        (None, {"store": "disk"}, "store: expected mmap, ram or hdf5, got 'disk'"),
        (None, {"limit_gb": 0}, "limit_gb: expected more than 0, got 0"),
        (None, {"folder": "file"}, r"cannot write the cache in .*file.* give another folder="),
        (None, {"store": "hdf5"}, "needs 'h5py'"),
        ([object()], {}, "cache_dataset: sample 0: the sample is a object, which"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence(slow, tmp_path, monkeypatch, dataset, options, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises((TypeError, ValueError, TrainingError, MissingExtraError), match=message):
        posemill.cache_dataset(dataset or slow, **{"key": "k", "folder": "c", **options})[0]


class Pair(NamedTuple):
    """Would come back as a plain tuple."""

    one: int
    other: int


def test_nested_samples_come_back_with_types_and_shapes():
    sample = (
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        {"mask": torch.eye(3, dtype=torch.bool), "half": torch.ones(2).bfloat16(),
         7: [np.float32(0.1), np.array("text"), np.zeros((0, 3))]},
        torch.tensor(3.0, requires_grad=True).detach(), torch.zeros(2, 0),
        "name", 4, 2.5, True, None, (), {},
        np.arange(6).reshape(2, 3).T, np.float64("-inf"),
    )  # fmt: skip
    assert_same_state(unpack(pack(sample)), sample)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, {"picture": object()}), r"\[1\]\['picture'\] is a object, which cannot be kept"),
        (Pair(1, 2), r"the sample is a .*Pair, which cannot be kept"),
        ([np.array([None])], r"\[0\] is a numpy.ndarray, which cannot be kept"),
        ({(1, 2): 3}, "the sample: expected names or numbers as keys of a dict"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_named_with_its_place(value, message):
    with pytest.raises(TypeError, match=message):
        pack(value)


def framed(text):
    body = len(text).to_bytes(8, "little") + text + bytes(64)
    return zlib.crc32(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff" * 40, pack(np.zeros(9))[:-1], framed(b"{}"), framed(b'{"list":[' * 9000),
        framed(b'{"array": ["|O", [1], 0]}'), framed(b'{"tensor": ["nn", [1], 0]}'),
        framed(b'{"array": ["<f4", [99], 0]}'),
    ],
)  # fmt: skip
def test_other_bytes_are_no_sample(data):
    with pytest.raises(ValueError, match="not a packed sample"):
        unpack(data)


def test_a_cache_is_found_from_another_folder_and_may_be_removed(slow, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = posemill.cache_dataset(slow, key="a", folder="here")
    assert cache[0]["i"] == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert live_uses()[cache] == 1
    shutil.rmtree(tmp_path / "here")
    assert live_uses()[cache] == 0
