"""Listings that were cut off go on, and never lose what is there."""

from __future__ import annotations

import os

import pytest

from posemill.errors import StorageError
from posemill.places import listing, open_storage
from posemill.places.folders import FolderStorage
from posemill.places.listing import all_entries
from posemill.sources import find_clips

NAMES = [f"{number:02d}.mp4" for number in range(30)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(listing, "_PAGE", 5)
    storage = open_storage(tmp_path / "place")
    for name in NAMES:
        storage.put(name, name.encode())
    return storage


@pytest.fixture
def cut_off(place):
    """A listing that ended in the middle of a page: 20 objects of 23 are kept."""

    def cut():
        for number, _ in enumerate(all_entries(place, []), start=1):
            if number == 23:
                return

    return cut


def kept_of(tmp_path):
    return list((tmp_path / "cache" / "listings").iterdir())


def test_a_listing_that_was_cut_off_goes_on_where_it_was(place, cut_off, tmp_path, monkeypatch):
    cut_off()
    asked, entries = [], FolderStorage.entries

    def watched(self, prefix="", *, after=""):
        asked.append(after)
        return entries(self, prefix, after=after)

    monkeypatch.setattr(FolderStorage, "entries", watched)
    notes = []
    assert list(all_entries(place, notes)) == list(entries(place))
    assert asked == ["19.mp4"]
    assert notes == ["its listing was cut off before; it goes on behind 20 objects"]
    assert not kept_of(tmp_path)
    assert len(list(all_entries(place, notes))) == 30
    assert (asked[1:], len(notes)) == ([""], 1), "a whole one begins anew"


def test_a_storage_that_fails_on_the_way_is_asked_for_the_rest_by_the_same_command(
    place, tmp_path, monkeypatch
):
    walk = FolderStorage._walk

    def failing(self, prefix, after):
        for entry in walk(self, prefix, after):
            if entry.key == "17.mp4":
                raise StorageError("503")
            yield entry

    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "_walk", failing)
        with pytest.raises(StorageError, match="503"):
            find_clips(place.uri)
    clips = find_clips(place.uri)
    assert [clip.clip_id for clip in clips] == [name.removesuffix(".mp4") for name in NAMES]
    assert clips.problems == ("its listing was cut off before; it goes on behind 15 objects",)


def test_what_comes_and_goes_meanwhile_is_found_by_the_next_listing(place, cut_off):
    cut_off()
    place.delete("03.mp4")
    place.put("05b.mp4", b"new")
    place.put("25b.mp4", b"new")
    on = {entry.key for entry in all_entries(place, [])}
    assert on == {*NAMES, "25b.mp4"}, "as one that took longer"
    anew = {entry.key for entry in all_entries(place, [])}
    assert anew == {*NAMES, "05b.mp4", "25b.mp4"} - {"03.mp4"}


def test_old_torn_and_foreign_ones_are_not_gone_on_with(place, cut_off, tmp_path):
    whole = list(place.entries())
    cut_off()
    (file,) = kept_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-7])
    notes = []
    assert list(all_entries(place, notes)) == whole
    assert notes == ["its listing was cut off before; it goes on behind 19 objects"]
    for spoil in (lambda: os.utime(file, (1, 1)), lambda: file.write_bytes(b"{}\n")):
        cut_off()
        spoil()
        assert list(all_entries(place, notes)) == whole
    assert len(notes) == 1


def test_two_at_once_and_a_cache_that_cannot_be_written_list_all(place, tmp_path, monkeypatch):
    first = all_entries(place, [])
    next(first)
    assert len(list(all_entries(place, []))) == 30
    assert len(list(first)) == 29
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "file"))
    assert len(list(all_entries(place, []))) == 30
