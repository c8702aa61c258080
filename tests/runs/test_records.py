"""The records of a run at its place: one order, one writer, the same ledger everywhere."""

import gzip
import json
import sqlite3
import threading
from contextlib import closing

import pytest

from posemill.errors import RunError
from posemill.places import open_place
from posemill.runs import log
from posemill.runs.events import Crashed, Finished, Planned, PlannedClip, Started, to_json
from posemill.runs.ledger import Ledger
from posemill.runs.log import EventLog
from posemill.runs.records import PREFIX, SNAPSHOTS, RecordLog


@pytest.fixture
def place(tmp_path):
    return open_place(tmp_path / "place")


@pytest.fixture
def ledger_at(tmp_path):
    """The ledger of a machine, by its name."""
    return lambda name: closing(Ledger(tmp_path / f"{name}.sqlite"))


def contents(path):
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def begin(place, folder, epoch=1):
    folder.mkdir(exist_ok=True)
    writing = RecordLog(place, epoch)
    with closing(Ledger(folder / "ledger.sqlite")) as ledger:
        writing.take_over(ledger)
    return closing(EventLog(folder, writing))


def test_one_that_sleeps_between_its_lease_and_its_first_record_is_refused_by_a_later_epoch(
    place, ledger_at
):
    with ledger_at("early") as of_early, ledger_at("late") as of_late:
        RecordLog(place, epoch=2).take_over(of_late)
        RecordLog(place).follow(of_early)  # as a copy is brought up to date
        with pytest.raises(RunError, match="was taken over by another process while this one was"):
            RecordLog(place, epoch=1).take_over(of_early)
        RecordLog(place, epoch=3).take_over(of_early)
    assert len(list(place.list(PREFIX))) == 2


def test_events_that_cannot_be_added_leave_nothing_and_are_not_published(place, tmp_path):
    new, double = PlannedClip("train", "a", 3), PlannedClip("train", "b", 3)
    with begin(place, tmp_path / "one") as events:
        with pytest.raises(RunError, match="two clips have the same split and id"):
            events.record(Planned("run", (new, double, double)))
        with pytest.raises(RunError, match="the events before these could not be written"):
            events.record(Planned("run", (new,)))
    assert len(list(place.list(PREFIX))) == 1
    with begin(place, tmp_path / "one", epoch=2) as events:
        assert events.ledger.clips() == []
        events.record(Planned("run", (new,)))
        assert [clip.clip_id for clip in events.ledger.clips()] == ["a"]


def test_what_a_writer_that_was_cut_off_appends_is_neither_published_nor_kept(
    place, tmp_path, ledger_at
):
    with begin(place, tmp_path / "one") as cut_off:
        cut_off.record(Started())
        with begin(place, tmp_path / "two", epoch=2) as events:
            cut_off.append(Finished("too late"))
            with pytest.raises(RunError, match="was taken over by another process"):
                cut_off.flush()
            events.record(Started())
        assert cut_off.ledger.finished_at() is None
    with ledger_at("three") as ledger:
        assert RecordLog(place).follow(ledger) == 4
        assert (ledger.num_starts(), ledger.finished_at()) == (2, None)


def test_nobody_who_appends_waits_for_the_place(place, tmp_path, monkeypatch):
    is_open, create = threading.Event(), type(place).create

    def slow(self, key, content):
        assert is_open.wait(30)
        return create(self, key, content)

    monkeypatch.setattr(log, "RECORD_SECONDS", 0.0)
    with begin(place, tmp_path / "one") as events:
        monkeypatch.setattr(type(place), "create", slow)
        for _ in range(log._MOST_WAITING):
            events.append(Crashed(1, 2, 3, "died"))
        assert events.ledger.crashes() == {}
        is_open.set()
        events.flush()
        assert events.ledger.crashes() == {(1, 2, 3): log._MOST_WAITING}


def test_a_machine_that_knows_nothing_begins_with_the_newest_snapshot(
    place, tmp_path, ledger_at, monkeypatch
):
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 300)
    with begin(place, tmp_path / "one") as events:
        for number in range(620):
            events.record(Crashed(number, 2, 3, "died"))
    assert [entry.key for entry in place.list(SNAPSHOTS)] == [
        f"{SNAPSHOTS}0000000{number}.sqlite.gz" for number in (300, 600)
    ]
    with ledger_at("all") as ledger:
        assert RecordLog(place).follow(ledger) == 621
    path = tmp_path / "new.sqlite"
    RecordLog(place).fetch_snapshot(path)
    with closing(Ledger(path)) as ledger:
        assert ledger.number == 600
        assert RecordLog(place).follow(ledger) == 21
    assert contents(path) == contents(tmp_path / "all.sqlite")
    assert contents(path) == contents(tmp_path / "one" / "ledger.sqlite")


@pytest.mark.parametrize(
    ("damage", "why"),
    [(b"", ""), (b"no gzip", "Not a gzipped"), (gzip.compress(b"no ledger"), "not a database"),
     (gzip.compress(bytes(9_000_000)), "larger than 1 MB")],
)  # fmt: skip
def test_a_damaged_snapshot_is_said(place, tmp_path, damage, why):
    place.put(f"{SNAPSHOTS}0000001000.sqlite.gz", damage)
    with pytest.raises(RunError, match=rf"1000.sqlite.gz is damaged .*{why}.*; delete it: the"):
        RecordLog(place).fetch_snapshot(tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    "event",
    [
        [],
        {"kind": "unknown"},
        {"kind": "Finished"},
        {"kind": "Finished", "finished_at": 7},
        {"kind": "Reset", "clips": {"clip_no": [1], "num_frames": [2], "content": ["x"]}},
        {"kind": "Reset", "clips": {"clip_no": [[]], "num_frames": [2], "content": ["x"]}},
        to_json(Crashed(1 << 70, 1, 1, "")),
        {"kind": "Committed", "shard": [], "units": {}, "clips": {}},
    ],
)
def test_a_record_of_something_else_is_said(place, ledger_at, event):
    record = {"posemill_record": 1, "number": 1, "epoch": 1, "writer": "x", "events": [event]}
    place.put(f"{PREFIX}0000000001.json.gz", gzip.compress(json.dumps(record).encode()))
    with ledger_at("one") as ledger:
        with pytest.raises(RunError, match=r"0000000001.json.gz is damaged, or of another version"):
            RecordLog(place).follow(ledger)
        assert ledger.number == 0


def test_a_record_is_json_with_names(place, tmp_path):
    with begin(place, tmp_path / "one") as events:
        events.record(Crashed(4, 2, 3, "died"))
    record = json.loads(gzip.decompress(place.get(f"{PREFIX}0000000002.json.gz")))
    assert (record["posemill_record"], record["number"], record["epoch"]) == (1, 2, 1)
    assert record["events"] == [{"kind": "Crashed", **vars(Crashed(4, 2, 3, "died"))}]
