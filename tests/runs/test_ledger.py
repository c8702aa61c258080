"""The ledger of a run and its events: what is finished, left, given up, and who is told so."""

import dataclasses
import json
import sqlite3
from contextlib import closing

import pytest

from posemill.errors import RunError
from posemill.jobs.extract.job import Phase, part_of
from posemill.jobs.extract.opening import changes_of, planned_clips
from posemill.records import Clip
from posemill.runs.events import (
    ChangedClip,
    Committed,
    Crashed,
    Finished,
    GaveUp,
    Lost,
    Piece,
    Planned,
    PlannedClip,
    PlannedUnit,
    Reset,
    Shard,
    Started,
    UnitProgress,
    from_json,
    to_json,
)
from posemill.runs.log import EventLog
from posemill.runs.queries import SplitCounts, read_ledger
from posemill.sources.clip_list import digest_of
from tests.runs.conftest import change_ledger

CLIPS = (
    Clip("a", "/frames/a", "frames", "train", num_frames=10),
    Clip("b", "/videos/b.mp4", "video", "train"),
    Clip("c", "/frames/c", "pictures", "dev", num_frames=4),
)
UNITS = (
    PlannedUnit(1, 0, 6, True, False, 6),
    PlannedUnit(1, 6, None, True, False, 4),
    PlannedUnit(2, 0, None, True, True, 2000),
    PlannedUnit(3, 0, None, False, False, 4),
)


PLANNED = Planned("run", planned_clips(CLIPS), UNITS)


@pytest.fixture
def fresh(tmp_path):
    """The events of a run without a plan."""
    with closing(EventLog(tmp_path)) as events:
        yield events


@pytest.fixture
def events(fresh):
    fresh.record(PLANNED)
    return fresh


def load(events, *unit_nos):
    return events.ledger.units(unit_nos, CLIPS)


def lost(frame_index, num_frames=1, reason="corrupt"):
    return Lost(frame_index, num_frames, "/a", reason, "/a: corrupt: it is")


def whole_clip(clip_no, split, num_rows, *lost):
    return UnitProgress(None, clip_no, split, num_rows, None, True, num_rows, lost)


def progress(unit_no, clip_no, next_frame, *, rows=0, is_done=False, state=None, lost=()):
    split = CLIPS[clip_no - 1].split
    return UnitProgress(unit_no, clip_no, split, next_frame, state, is_done, rows, tuple(lost))


def commit(events, *units, first_frame=0):
    pieces = tuple(
        Piece(unit.clip_no, first_frame, 0, unit.num_rows, unit.unit_no)
        for unit in units
        if unit.num_rows
    )
    name = f"part-{len(events.ledger.shard_sizes())}.parquet"
    shard = Shard(name, 100, pieces) if pieces else None
    events.record(Committed(shard, units))


def counts(events):
    """Of each split: clips done, frames known, out and failed, clips failed."""
    rows = map(dataclasses.astuple, events.ledger.counts())
    return {split: tuple(rest) for split, _, *rest in rows}


def test_starts_are_counted_and_begin_what_was_finished_anew(events):
    events.record(Finished("then"))
    assert (events.ledger.num_starts(), events.ledger.finished_at()) == (0, "then")
    for number in (1, 2):
        events.record(Started())
        assert (events.ledger.num_starts(), events.ledger.finished_at()) == (number, None)


def test_a_plan_is_recorded_whole_and_takes_the_place_of_what_was_there(events):
    commit(events, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    events.record(GaveUp(1, 3, Phase.ESTIMATING, "three times"), Started(), Finished("then"))
    other = Planned("other", PLANNED.clips[1:], (PlannedUnit(1, 0, None, True, True, 7),))
    events.record(other)
    ledger = events.ledger
    assert (ledger.planned_run(), ledger.num_starts(), ledger.finished_at()) == ("other", 0, None)
    assert events.ledger.costs_to_do() == [(1, 7)]
    assert ledger.shard_sizes() == ledger.crashes() == {}
    assert counts(events) == {"train": (0, 0, 0, 0, 0), "dev": (0, 4, 0, 0, 0)}


def test_what_is_left_costs_what_its_frames_do(events):
    assert events.ledger.costs_to_do() == [(1, 6), (2, 4), (3, 2000), (4, 4)]
    commit(events, progress(2, 1, 9, rows=3), first_frame=6)
    commit(events, progress(4, 3, 4, rows=4, is_done=True))
    assert events.ledger.costs_to_do() == [(1, 6), (2, 1), (3, 2000)]
    commit(events, progress(2, 1, 12, rows=3))  # more than it said: at least a frame
    assert events.ledger.costs_to_do()[1] == (2, 1)


def test_units_are_loaded_as_they_stand_and_only_those_that_are_not_done(events, tmp_path):
    commit(events, progress(1, 1, 3, rows=3, state=b"half"))
    commit(events, progress(4, 3, 4, rows=4, is_done=True))
    first, second = load(events, 1, 2, 4)
    assert (first.unit_no, first.clip_no, first.next_frame, first.state) == (1, 1, 3, b"half")
    assert (first.start_frame, first.stop_frame, first.is_chain) == (0, 6, True)
    assert first.clip == CLIPS[0]
    assert (second.unit_no, second.start_frame, second.stop_frame) == (2, 6, None)
    change_ledger(tmp_path, "UPDATE units SET next_frame = -1 WHERE unit_no = 2")
    with pytest.raises(RunError, match="the ledger is damaged: "):
        load(events, 2)


def test_a_clip_is_done_when_its_last_unit_is_and_its_length_is_known_then(events):
    commit(events, progress(1, 1, 6, rows=6, is_done=True))
    assert counts(events)["train"] == (0, 10, 6, 0, 0)
    with pytest.raises(RunError, match=r"\[14, 6, 0, 6\] frames in, out, failed and counted"):
        events.ledger.check_totals()
    commit(events, progress(2, 1, 10, rows=3, is_done=True, lost=[lost(8)]), first_frame=6)
    assert counts(events)["train"] == (1, 10, 9, 1, 0)
    commit(events, progress(3, 2, 7, rows=7, is_done=True))
    assert counts(events)["train"] == (2, 17, 16, 1, 0)
    assert events.ledger.clips()[1].num_frames == 7
    (unit,) = load(events, 4)
    assert unit.clip.num_frames == 4


def test_a_clip_whose_units_are_all_done_by_one_commit_counts_once(events):
    second = progress(2, 1, 10, is_done=True, lost=[lost(6, 4)])
    commit(events, progress(1, 1, 6, rows=6, is_done=True), second)
    assert counts(events)["train"] == (1, 10, 6, 4, 0)


def test_a_clip_that_gave_nothing_is_counted_as_failed(events):
    assert counts(events)["dev"][-1] == 0  # asked for before, so kept up to date from here on
    commit(events, progress(4, 3, 4, is_done=True, lost=[lost(None, 4)]))
    assert counts(events)["dev"] == (1, 4, 0, 4, 1)
    assert counts(events)["train"][-1] == 0
    assert events.ledger.reasons() == [("corrupt", 1, 4)]
    events.record(Reset())
    assert counts(events)["dev"] == (0, 4, 0, 0, 0)
    commit(events, progress(4, 3, 4, rows=4, is_done=True))
    assert counts(events)["dev"] == (1, 4, 4, 0, 0)


def test_a_crash_is_counted_by_frame_and_phase(events):
    events.record(
        *[Crashed(1, 5, Phase.DECODING, "died")] * 3, Crashed(1, 5, Phase.ESTIMATING, "died")
    )
    events.record(Crashed(2, 5, Phase.DECODING, "died"))
    tries = {(1, 5, Phase.DECODING): 3, (1, 5, Phase.ESTIMATING): 1, (2, 5, Phase.DECODING): 1}
    assert events.ledger.crashes() == tries


@pytest.mark.parametrize(
    ("unit_no", "phase", "is_given_up"),
    [(1, Phase.DECODING, False), (1, Phase.ESTIMATING, False), (1, -1, True),
     (1, Phase.STARTING, False), (3, Phase.DECODING, True), (3, Phase.ESTIMATING, False)],
)  # fmt: skip
def test_a_frame_is_left_out_unless_nothing_after_it_can_be_read(
    events, unit_no, phase, is_given_up
):
    events.record(Crashed(unit_no, 2, Phase.DECODING, "not given up"))
    events.record(GaveUp(unit_no, 5, phase, "three times"))
    (unit,) = load(events, unit_no)
    part = part_of(unit)
    if is_given_up:
        assert (part.skip, part.give_up) == ({}, (5, "three times"))
        for frame in (4, 6):  # the first one counts
            events.record(GaveUp(unit_no, frame, phase, f"at {frame}"))
        assert part_of(*load(events, unit_no)).give_up == (4, "at 4")
    else:
        assert (part.skip, part.give_up) == ({5: "three times"}, None)


def test_a_failed_picture_becomes_a_unit_of_its_own(events):
    commit(events, progress(4, 3, 4, rows=3, is_done=True, lost=[lost(2)]))
    events.record(Finished("then"), Reset())
    assert events.ledger.finished_at() is None  # from the same moment on
    assert counts(events)["dev"] == (0, 4, 3, 0, 0)
    assert events.ledger.costs_to_do()[-1] == (5, 1)
    (unit,) = load(events, 5)
    assert (unit.start_frame, unit.stop_frame, unit.next_frame) == (2, 3, 2)
    events.record(Reset())
    assert len(events.ledger.costs_to_do()) == 4


def test_a_failed_frame_of_a_chain_makes_the_whole_unit_start_anew(events):
    commit(events, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    commit(events, progress(2, 1, 10, rows=4, is_done=True), first_frame=6)
    events.record(GaveUp(1, 3, Phase.ESTIMATING, "three times"))
    events.record(Reset())
    assert counts(events)["train"] == (0, 10, 4, 0, 0)
    (unit,) = load(events, 1, 2)
    assert (unit.next_frame, unit.state, unit.given_up) == (0, None, ())
    events.record(Reset((ChangedClip(1, 12, "new"),)))  # a clip that changed, as a whole
    assert counts(events)["train"] == (0, 12, 0, 0, 0)
    units = load(events, 1, 2)
    assert [(unit.next_frame, unit.clip.num_frames) for unit in units] == [(0, 12), (6, 12)]


def test_a_failed_video_keeps_its_length_and_a_replaced_one_gets_another(events):
    commit(events, progress(3, 2, 7, rows=5, is_done=True, lost=[lost(5, 2)]))
    assert counts(events)["train"] == (1, 17, 5, 2, 0)
    events.record(Reset())
    assert counts(events)["train"] == (0, 17, 0, 0, 0)
    assert events.ledger.clips()[1].num_frames == 7
    events.record(Reset((ChangedClip(2, 9, "new"),)))
    assert counts(events)["train"] == (0, 19, 0, 0, 0)
    assert events.ledger.clips()[1].num_frames == 9


def test_changes_of_the_source_are_named(events):
    assert changes_of(events.ledger, CLIPS) == []
    longer = dataclasses.replace(CLIPS[0], version="other")
    new = Clip("x", "/frames/x", "frames", "dev", num_frames=1)
    lines, (record, *others) = zip(*changes_of(events.ledger, [longer, CLIPS[1], new]), strict=True)
    assert lines == ("train/a is not the same", "dev/x is new", "dev/c is gone")
    assert (record.clip_no, record.has_failed, others) == (1, False, [None, None])
    commit(events, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    ((line, record),) = changes_of(events.ledger, [longer, *CLIPS[1:]])
    assert (line, record.clip_no, record.has_failed) == ("train/a is not the same", 1, True)
    events.record(Reset((ChangedClip(1, 11, digest_of(longer)),)))
    assert changes_of(events.ledger, [longer, *CLIPS[1:]]) == []


def test_counts_are_kept_by_split_in_the_order_of_the_source(fresh, tmp_path):
    """Lost frames make their clip longer, and a lost clip is counted."""
    names = (("train", "a", 2), ("dev", "a", None), ("train", "b", None), ("train", "c", 7))
    clips = tuple(PlannedClip(*name) for name in names)
    shard = Shard("x.parquet", 10, (Piece(1, 0, 0, 2),))
    first, missing = whole_clip(1, "train", 2, lost(1), lost(0, 3)), lost(None, 0, "missing")
    done = Committed(shard, (first, whole_clip(3, "train", 0, missing)))
    fresh.record(Planned("run", clips), done)
    with read_ledger(tmp_path) as database:
        assert database.counts() == [
            SplitCounts("train", 3, 2, 13, 2, 4, 1),
            SplitCounts("dev", 1, 0, 0, 0, 0, 0),
        ]
        assert [failure.frame_index for failure in database.failures()] == [0, 1, None]
        assert database.reasons() == [("corrupt", 2, 4), ("missing", 1, 0)]


def test_names_that_are_no_text_are_stored_as_what_can_be_read(fresh, tmp_path):
    clip = PlannedClip("d\udce9v", "caf\udce9", 1, "digest")
    missing = Lost(None, 0, "/\udce9", "r", "\udce9")
    done = Committed(None, (whole_clip(1, "d\udce9v", 0, missing),))
    fresh.record(Planned("run", (clip,)), done)
    with read_ledger(tmp_path) as database:
        (found,) = database.failures()
        assert (found.clip_id, found.split) == (r"caf\xe9", r"d\xe9v")
        assert (found.path, found.message) == (r"/\xe9", r"\xe9")
        assert database.counts() == [SplitCounts(r"d\xe9v", 1, 1, 1, 0, 0, 1)]
        assert database.execute("SELECT content FROM clips").fetchone() == ("digest",)


def test_a_folder_that_may_not_be_written_is_read_with_the_same_care(tmp_path, monkeypatch):
    """SQLite cannot make its side files there; the second way in checks the tables too."""
    real, asked = sqlite3.connect, []

    def connect(name, **options):
        asked.append(name.rpartition("?")[2])
        return real(":memory:", factory=Refusing) if "mode=ro" in name else real(name, **options)

    class Refusing(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("unable to open database file")

    with closing(EventLog(tmp_path)) as events:
        events.record(Finished("1"))
    monkeypatch.setattr(sqlite3, "connect", connect)
    with read_ledger(tmp_path) as database:
        assert database.finished_at() == "1"
    assert asked == ["mode=ro", "immutable=1"]
    monkeypatch.undo()
    change_ledger(tmp_path, "CREATE VIEW trap AS SELECT 1")
    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(RunError, match="the view 'trap'"), read_ledger(tmp_path):
        pass


LOST = Lost(None, 3, "/caf\udce9.mp4", "cut off", "it is")
WRITTEN_UNITS = (
    UnitProgress(7, 1, "train", 5, b"\0state", False, 5, (LOST,)),
    UnitProgress(None, 2, "dev", 4, None, True, 4),
)
WRITTEN_CLIPS = PlannedClip("a", "b", None), PlannedClip("a", "手語", 4, "digest")
WRITTEN_SHARD = Shard("x.parquet", 100, (Piece(1, 0, 0, 5, 7, "[]"), Piece(2, 0, 5, 4)), "sum")


@pytest.mark.parametrize(
    "event",
    [
        Planned("id", WRITTEN_CLIPS, (PlannedUnit(1, 0, None, True, False, 5),)),
        Planned("id"),
        Started(),
        Committed(WRITTEN_SHARD, WRITTEN_UNITS),
        Committed(None, ()),
        Crashed(1, 2, 3, "killed"),
        GaveUp(1, 2, -1, "three times"),
        Reset((ChangedClip(1, None, "x"), ChangedClip(2, 9, "y"))),
        Finished("2026-01-01"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_the_same_after_it_was_written_as_json(event):
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize("column", ["unit_no", "split", "state", "is_done", "num_rows"])
def test_a_column_of_another_type_or_length_or_none_is_refused(column):
    content = to_json(Committed(None, WRITTEN_UNITS))
    for wrong in ([{}, {}], [[], []], content["units"][column][:1]):
        damaged = content | {"units": content["units"] | {column: wrong}}
        with pytest.raises((TypeError, ValueError, KeyError)):
            from_json(damaged)
    del content["units"][column]
    with pytest.raises(KeyError, match=column):
        from_json(content)
