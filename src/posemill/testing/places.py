"""What every place must do."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from posemill.places import ChangedError, Place


class PlaceContract:
    """Subclass it as `TestX` with a fixture `place` that gives an empty place for each test."""

    def test_an_object_is_there_as_it_was_put_and_the_last_put_counts(self, place: Place) -> None:
        assert place.get("a/b.bin") is None
        assert place.look("a/b.bin") is None
        for content in (b"first", b"", bytes(range(256)) * 8000):
            place.put("a/b.bin", content)
            assert place.get("a/b.bin") == content
            found = place.look("a/b.bin")
            assert found is not None
            assert (found.key, found.num_bytes) == ("a/b.bin", len(content))
        assert b"".join(place.read("a/b.bin")) == content

    def test_of_all_who_create_a_key_exactly_one_succeeds(self, place: Place) -> None:
        contents = [f"writer {number}".encode() for number in range(8)]
        for turn in range(3):
            with ThreadPoolExecutor(8) as pool:
                results = list(pool.map(partial(place.create, f"c/{turn}"), contents))
            assert sum(results) == 1
            assert place.get(f"c/{turn}") == contents[results.index(True)]

    def test_what_was_created_is_not_created_again_but_known_as_ones_own(
        self, place: Place
    ) -> None:
        assert place.create("key", b"mine")
        assert place.create("key", b"mine")  # a try whose answer was lost
        assert not place.create("key", b"another's")
        assert place.get("key") == b"mine"

    def test_listing_is_by_key_below_the_prefix_and_behind_a_key(self, place: Place) -> None:
        keys = sorted(["a/1", "a/2", "a/b/3", "a-b/4", "ab", "b/5", "a/ü 6"], key=str.encode)
        for key in keys:
            place.put(key, key.encode())
        found = list(place.list())
        assert [each.key for each in found] == keys
        assert [each.num_bytes for each in found] == [len(key.encode()) for key in keys]
        assert [each.key for each in place.list("a/")] == ["a/1", "a/2", "a/b/3", "a/ü 6"]
        assert [each.key for each in place.list("a/", after="a/2")] == ["a/b/3", "a/ü 6"]
        for number, key in enumerate(keys):
            assert [each.key for each in place.list(after=key)] == keys[number + 1 :]
        assert list(place.list("none/")) == []

    def test_what_is_deleted_is_gone_and_may_be_deleted_again(self, place: Place) -> None:
        place.put("x/y", b"1")
        place.delete("x/y")
        place.delete("x/y")
        assert place.get("x/y") is None
        assert list(place.list()) == []

    def test_an_object_that_is_fetched_is_the_version_that_was_listed(
        self, place: Place, tmp_path: Path
    ) -> None:
        place.put("v.mp4", b"listed" * 500_000)
        (entry,) = place.list()
        place.fetch("v.mp4", tmp_path / "v.mp4", version=entry.version)
        assert (tmp_path / "v.mp4").read_bytes() == b"listed" * 500_000
        place.put("v.mp4", b"another")
        with pytest.raises(ChangedError, match=r"v\.mp4 was changed or removed"):
            place.fetch("v.mp4", tmp_path / "w.mp4", version=entry.version)
        place.delete("v.mp4")
        with pytest.raises(ChangedError, match=r"v\.mp4 was changed or removed"):
            place.fetch("v.mp4", tmp_path / "w.mp4", version=entry.version)
        assert [path.name for path in tmp_path.glob("*.mp4")] == ["v.mp4"]

    def test_another_process_opens_the_same_place(self, place: Place) -> None:
        place.put("k", b"v")
        assert pickle.loads(pickle.dumps(place)).get("k") == b"v"
