"""What every storage must do."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from posemill.places import ChangedError, Storage


class StorageContract:
    """Subclass it as `TestX` with a fixture `storage` that gives an empty place for each test."""

    def test_an_object_is_there_as_it_was_put_and_the_last_put_counts(
        self, storage: Storage
    ) -> None:
        assert storage.get("a/b.bin") is None
        assert storage.look("a/b.bin") is None
        for content in (b"first", b"", bytes(range(256)) * 8000):
            storage.put("a/b.bin", content)
            assert storage.get("a/b.bin") == content
            found = storage.look("a/b.bin")
            assert found is not None
            assert (found.key, found.num_bytes) == ("a/b.bin", len(content))
        assert storage.get_range("a/b.bin", 255, 258) == b"\xff\x00\x01"
        assert storage.get_range("a/b.bin", 256 * 8000 - 1, 256 * 8001) == b"\xff"

    def test_of_all_who_create_a_key_exactly_one_succeeds(self, storage: Storage) -> None:
        contents = [f"writer {number}".encode() for number in range(8)]
        for turn in range(3):
            with ThreadPoolExecutor(8) as pool:
                results = list(pool.map(partial(storage.create, f"c/{turn}"), contents))
            assert sum(results) == 1
            assert storage.get(f"c/{turn}") == contents[results.index(True)]

    def test_what_was_created_is_not_created_again_but_known_as_ones_own(
        self, storage: Storage
    ) -> None:
        assert storage.create("key", b"mine")
        assert storage.create("key", b"mine")  # a try whose answer was lost
        assert not storage.create("key", b"another's")
        assert storage.get("key") == b"mine"

    def test_listing_is_by_key_below_the_prefix_and_behind_a_key(self, storage: Storage) -> None:
        keys = sorted(["a/1", "a/2", "a/b/3", "a-b/4", "ab", "b/5", "a/ü 6"], key=str.encode)
        for key in keys:
            storage.put(key, key.encode())
        found = list(storage.entries())
        assert [each.key for each in found] == keys
        assert [each.num_bytes for each in found] == [len(key.encode()) for key in keys]
        assert [each.key for each in storage.entries("a/")] == ["a/1", "a/2", "a/b/3", "a/ü 6"]
        assert [each.key for each in storage.entries("a/", after="a/2")] == ["a/b/3", "a/ü 6"]
        for number, key in enumerate(keys):
            assert [each.key for each in storage.entries(after=key)] == keys[number + 1 :]
        assert list(storage.entries("none/")) == []

    def test_what_is_deleted_is_gone_and_may_be_deleted_again(self, storage: Storage) -> None:
        storage.put("x/y", b"1")
        storage.delete("x/y")
        storage.delete("x/y")
        assert storage.get("x/y") is None
        assert list(storage.entries()) == []

    def test_an_object_that_is_fetched_is_the_version_that_was_listed(
        self, storage: Storage, tmp_path: Path
    ) -> None:
        storage.put("v.mp4", b"listed" * 500_000)
        (entry,) = storage.entries()
        storage.fetch("v.mp4", tmp_path / "v.mp4", version=entry.version)
        assert (tmp_path / "v.mp4").read_bytes() == b"listed" * 500_000
        storage.put("v.mp4", b"another")
        with pytest.raises(ChangedError, match=r"v\.mp4 was changed since it was listed"):
            storage.fetch("v.mp4", tmp_path / "w.mp4", version=entry.version)
        storage.delete("v.mp4")
        with pytest.raises(ChangedError, match=r"v\.mp4 has gone since it was listed"):
            storage.fetch("v.mp4", tmp_path / "w.mp4", version=entry.version)
        assert [path.name for path in tmp_path.glob("*.mp4")] == ["v.mp4"]

    def test_another_process_opens_the_same_place(self, storage: Storage) -> None:
        storage.put("k", b"v")
        assert pickle.loads(pickle.dumps(storage)).get("k") == b"v"
