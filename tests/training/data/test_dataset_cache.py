from __future__ import annotations

import copy
import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import DataLoader, Subset

import posemill
from posemill.errors import MissingExtraError, TrainingError
from posemill.training.data import segments
from posemill.training.data.dataset_cache import CacheUse, describe_uses, live_uses

STORES = ("mmap", "ram", "hdf5")


class Slow:
    """Samples that count how often they are made, in a file: processes do not share lists."""

    def __init__(self, log: Path, count: int = 12) -> None:
        self.log, self.count = log, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.count:
            raise AssertionError(index)
        with self.log.open("a") as handle:
            handle.write(f"{index}\n")
        return {"x": torch.full((3, 4), float(index)), "name": f"sample {index}", "i": index}

    def made(self) -> list[int]:
        """Return the samples that were made, in order."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "made.txt")


@pytest.mark.parametrize("store", STORES)
def test_every_sample_is_made_once_and_found_by_the_next_training(
    slow: Slow, tmp_path: Path, store: str
) -> None:
    for _ in range(2):
        cache = posemill.cache_dataset(slow, key="a", folder=tmp_path / "c", store=store)
        for _ in range(2):
            for index in (3, 0, -1, 3):
                sample = cache[index]
                assert torch.equal(sample["x"], torch.full((3, 4), float(index % 12)))
                assert sample["name"] == f"sample {index % 12}"
                sample["x"] += 1  # a user's augmentation: the cache does not change
    assert slow.made() == [3, 0, 11]
    assert (cache.use().num_hits, cache.use().num_made) == (8, 0)
    assert len(cache) == 12
    with pytest.raises(IndexError, match="sample 12 of 12"):
        cache[12]


def test_another_key_and_another_number_of_samples_are_another_cache(
    slow: Slow, tmp_path: Path
) -> None:
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
def test_loader_processes_share_a_cache(slow: Slow, tmp_path: Path, store: str, start: str) -> None:
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
    use = cache.use()
    assert (use.num_hits, use.num_made, use.num_refused) == (14, 12, 0)


def test_a_limit_is_held_and_what_has_no_room_is_made_anew(slow: Slow, tmp_path: Path) -> None:
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", limit_gb=1000e-9)
    for _ in range(2):
        assert [cache[index]["i"] for index in range(12)] == list(range(12))
    on_disk = sum(path.stat().st_size for path in cache.folder.glob("*.seg"))
    kept = 24 - len(slow.made())
    assert 0 < kept < 12
    assert on_disk <= 1000 + 40 * kept
    assert f"{len(slow.made())} had no room" not in describe_uses({})[0]
    use = cache.use()
    assert use.num_refused == use.num_made - kept
    assert f"; {use.num_refused} had no room (limit_gb, or a full disk)" in describe_uses({})[0]


def test_a_full_disk_ends_the_keeping_and_not_the_training(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c")
    cache[0]
    whole = [path.read_bytes() for path in cache.folder.glob("*.seg")]
    writer: Any = cache._segments._writer
    real = writer._file

    class Full:
        """Takes half of what is written, as a disk does before it is full."""

        def write(self, data: memoryview) -> int:
            if len(data) < 200:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(real.write(data[: len(data) // 2]))

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    monkeypatch.setattr(writer, "_file", Full())
    assert [cache[index]["i"] for index in (1, 2, 0)] == [1, 2, 0]
    assert [path.read_bytes() for path in cache.folder.glob("*.seg")] == whole
    assert cache.use().num_refused == 2


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_what_a_kill_leaves_at_the_end_of_a_file_is_made_again(
    slow: Slow, tmp_path: Path, cut: int
) -> None:
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c")
    for index in range(3):
        cache[index]
    (path,) = cache.folder.glob("*.seg")
    path.write_bytes(path.read_bytes()[:-cut])
    again = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c")
    assert [again[index]["i"] for index in (0, 1, 2, 2)] == [0, 1, 2, 2]
    assert slow.made() == [0, 1, 2, 2]


@pytest.mark.parametrize("store", ["mmap", "hdf5"])
def test_damaged_bytes_are_made_again(slow: Slow, tmp_path: Path, store: str) -> None:
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", store=store)
    cache[1]
    cache._segments.close()
    (path,) = cache.folder.glob("[0-9]*-*")
    data = path.read_bytes()
    where = data.index(b"sample 1")
    path.write_bytes(data[:where] + b"Sample 9" + data[where + 8 :])
    again = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", store=store)
    assert again[1]["name"] == "sample 1"
    (again.folder / f"1-broken.{'seg' if store == 'mmap' else 'h5'}").write_bytes(b"x" * 100)
    third = posemill.cache_dataset(slow, key="k", folder=tmp_path / "c", store=store)
    assert third[1]["name"] == "sample 1"
    assert slow.made() == [1, 1]


FILLER = """
import sys, time
import numpy as np, posemill
class Data:
    def __len__(self): return 100000
    def __getitem__(self, i): return np.full((50, 40), i % 5000)
cache = posemill.cache_dataset(Data(), key="k", folder=sys.argv[1], store=sys.argv[2])
for i in range(100000):
    cache[i]
    if i == 30:
        print("ready", flush=True)
"""


@pytest.mark.parametrize("store", ["mmap", "hdf5"])
def test_killed_at_any_moment_it_holds_what_was_whole(
    tmp_path: Path, store: str, start_process: Callable[..., psutil.Popen]
) -> None:
    command = [sys.executable, "-c", FILLER, str(tmp_path), store]
    for number in range(3):
        process = start_process(command, stdout=subprocess.PIPE, env=os.environ)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 + 0.037 * number)  # the moment of the kill, anywhere in the work
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    class Data:
        def __len__(self) -> int:
            return 100000

        def __getitem__(self, index: int) -> Any:
            raise KeyError(index)

    cache = posemill.cache_dataset(Data(), key="k", folder=tmp_path, store=store)
    count = 0
    while True:
        try:
            sample = cache[count]
        except KeyError:
            break
        np.testing.assert_array_equal(sample, np.full((50, 40), count % 5000))
        count += 1
    assert count > 20, "the first ones were kept"


def test_the_line_at_the_end_says_what_was_saved(slow: Slow, tmp_path: Path) -> None:
    before = live_uses()
    cache = posemill.cache_dataset(slow, key="maps of masks", folder=tmp_path / "c")
    part = Subset(cache, [0, 1])  # wrapped, as people do
    assert describe_uses(before) == []
    for _ in range(3):
        part[0], part[1]
    lines = describe_uses(before)
    assert len(lines) == 1
    assert lines[0].startswith("cache 'maps of masks': 4 samples were there and 2 were made in 0.0")
    assert lines[0].endswith("it saved 0.0 s")
    assert describe_uses(live_uses()) == []
    use = CacheUse(4, 2, 1, 3.0, 5.0).since(CacheUse(1, 1, 1, 1.0, 2.0))
    assert use == CacheUse(3, 1, 0, 2.0, 3.0)


def test_the_seconds_saved_are_those_that_making_took(tmp_path: Path) -> None:
    class Sleepy:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            time.sleep(0.05)
            return index

    cache = posemill.cache_dataset(Sleepy(), key="k", folder=tmp_path)
    assert [cache[0], cache[1], cache[0], cache[0]] == [0, 1, 0, 0]
    use = cache.use()
    assert 0.1 <= use.seconds_making < 10
    assert use.seconds_saved > 0.05


def test_counts_are_gone_with_the_data_set_and_copies_do_without(slow: Slow) -> None:
    cache = posemill.cache_dataset(slow, key="counts")
    counts = cache._counts_folder
    copies = [copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))]
    cache[0]
    assert [one[0]["i"] for one in copies] == [0, 0]
    assert cache.use().num_hits == 2
    del cache
    assert not counts.exists()
    assert [one[1]["i"] for one in copies] == [1, 1]


def test_lengths_of_the_samples_are_passed_on(slow: Slow, tmp_path: Path) -> None:
    assert not hasattr(posemill.cache_dataset(slow, key="k", folder=tmp_path), "lengths")
    slow.lengths = list(range(12))  # type: ignore[attr-defined]
    assert posemill.cache_dataset(slow, key="k", folder=tmp_path).lengths == list(range(12))


def test_wrong_use_is_one_sentence(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = posemill.cache_dataset
    with pytest.raises(TypeError, match=r"cache_dataset: expected len\(\) and \[index\], got int"):
        make(3, key="k")
    with pytest.raises(ValueError, match="key: expected a text that names the data, the step"):
        make(slow, key="")
    with pytest.raises(ValueError, match="store: expected mmap, ram or hdf5, got 'disk'"):
        make(slow, key="k", store="disk")
    with pytest.raises(ValueError, match="limit_gb: expected more than 0, got 0"):
        make(slow, key="k", limit_gb=0)
    (tmp_path / "file").touch()
    with pytest.raises(
        TrainingError, match=r"cannot write the cache in .*file.* give another folder="
    ):
        make(slow, key="k", folder=tmp_path / "file")
    with pytest.raises(TypeError, match="cache_dataset: sample 0: the sample is a object, which"):
        make([object()], key="k", folder=tmp_path)[0]
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match="needs 'h5py'"):
        make(slow, key="k", store="hdf5")


def test_hdf5_files_are_closed_before_a_fork(slow: Slow, tmp_path: Path) -> None:
    cache = posemill.cache_dataset(slow, key="k", folder=tmp_path, store="hdf5")
    cache[0]
    segments._close_hdf5()
    assert cache._segments._writer is None
    assert cache[0]["i"] == 0
    assert slow.made() == [0]
