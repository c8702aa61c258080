"""The ledger of an extraction: what is finished, what is left, what was given up."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import pytest

from posemill.errors import RunError
from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.messages import (
    DECODING,
    ESTIMATING,
    STARTING,
    Commit,
    Lost,
    UnitProgress,
)
from posemill.jobs.extract.plan import PlannedUnit
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status
from posemill.records import Clip
from posemill.stores.commits import Piece, Shard
from posemill.stores.reader import open_run

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


@pytest.fixture
def ledger(tmp_path):
    with closing(Ledger(tmp_path)) as ledger:
        ledger.add_plan(CLIPS, UNITS)
        yield ledger


def lost(frame_index, num_frames=1):
    return Lost(frame_index, num_frames, "/a", "corrupt", "/a: corrupt: it is")


def progress(unit_no, clip_no, next_frame, *, rows=0, is_done=False, state=None, lost=()):
    split = CLIPS[clip_no - 1].split
    return UnitProgress(unit_no, clip_no, split, next_frame, state, is_done, rows, tuple(lost))


def commit(ledger, *units, first_frame=0):
    pieces = tuple(
        Piece(unit.clip_no, first_frame, 0, unit.num_rows, unit.unit_no)
        for unit in units
        if unit.num_rows
    )
    num_rows = sum(piece.num_rows for piece in pieces)
    name = f"part-{len(ledger.shard_sizes())}.parquet"
    shard = Shard(name, num_rows, 100, pieces) if pieces else None
    ledger.apply(Commit(shard, units))


def counts(ledger):
    return {each.split: (each.clips_done, each.frames_known, each.frames_out, each.frames_failed,
                         each.clips_failed) for each in ledger.counts()}  # fmt: skip


def test_a_finished_run_begun_again_and_not_completed_does_not_say_finished(
    make_tree, config_for, tmp_path, monkeypatch
):
    tree = make_tree({"train/a": 6})
    (tree / "train" / "a" / "0002.png").write_bytes(b"not a picture")
    extract(config_for(tree))
    assert read_status(tmp_path / "run").state == "finished"

    def die(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("posemill.jobs.extract.run._work", die)
    with pytest.raises(KeyboardInterrupt):
        extract(config_for(tree, retry_failed=True))
    assert read_status(tmp_path / "run").state == "stopped"
    assert not open_run(tmp_path / "run").is_finished


def test_starts_are_counted(ledger):
    assert [ledger.begin_start() for _ in range(3)] == [0, 1, 2]


def test_a_plan_is_recorded_once_and_whole(tmp_path):
    with closing(Ledger(tmp_path)) as ledger:
        assert not ledger.is_planned
        with pytest.raises(RunError, match="two clips have the same split and id"):
            ledger.add_plan([CLIPS[0], CLIPS[0]], UNITS[:1])
        assert not ledger.is_planned
        assert ledger.costs_to_do() == []
        ledger.add_plan(CLIPS, UNITS)
        assert ledger.is_planned


def test_what_is_left_costs_what_its_frames_do(ledger):
    assert ledger.costs_to_do() == [(1, 6), (2, 4), (3, 2000), (4, 4)]
    commit(ledger, progress(2, 1, 9, rows=3), first_frame=6)
    commit(ledger, progress(4, 3, 4, rows=4, is_done=True))
    assert ledger.costs_to_do() == [(1, 6), (2, 1), (3, 2000)]
    commit(ledger, progress(2, 1, 12, rows=3))  # more than it said: at least a frame
    assert ledger.costs_to_do()[1] == (2, 1)


def test_units_are_loaded_as_they_stand_and_only_those_that_are_not_done(ledger):
    commit(ledger, progress(1, 1, 3, rows=3, state=b"half"))
    commit(ledger, progress(4, 3, 4, rows=4, is_done=True))
    first, second = ledger.load_units([1, 2, 4], CLIPS)
    assert (first.unit_no, first.clip_no, first.next_frame, first.state) == (1, 1, 3, b"half")
    assert (first.start_frame, first.stop_frame, first.is_chain) == (0, 6, True)
    assert first.clip is CLIPS[0]
    assert (second.unit_no, second.start_frame, second.stop_frame) == (2, 6, None)


def test_a_clip_is_done_when_its_last_unit_is_and_its_length_is_known_then(ledger):
    commit(ledger, progress(1, 1, 6, rows=6, is_done=True))
    assert counts(ledger)["train"] == (0, 10, 6, 0, 0)
    commit(ledger, progress(2, 1, 10, rows=3, is_done=True, lost=[lost(8)]), first_frame=6)
    assert counts(ledger)["train"] == (1, 10, 9, 1, 0)
    commit(ledger, progress(3, 2, 7, rows=7, is_done=True))
    assert counts(ledger)["train"] == (2, 17, 16, 1, 0)
    assert ledger.with_lengths(CLIPS)[1].num_frames == 7
    (unit,) = ledger.load_units([4], CLIPS)
    assert unit.clip.num_frames == 4


def test_a_clip_that_gave_nothing_is_counted_as_failed(ledger):
    assert counts(ledger)["dev"][-1] == 0  # asked for before, so kept up to date from here on
    commit(ledger, progress(4, 3, 4, is_done=True, lost=[lost(None, 4)]))
    assert counts(ledger)["dev"] == (1, 4, 0, 4, 1)
    assert counts(ledger)["train"][-1] == 0
    assert ledger.reasons() == [("corrupt", 1, 4)]


def test_a_crash_is_counted_by_frame_and_phase(ledger):
    tries = [ledger.record_crash(1, (5, DECODING), "died") for _ in range(3)]
    assert tries == [1, 2, 3]
    assert ledger.record_crash(1, (5, ESTIMATING), "died") == 1
    assert ledger.record_crash(2, (5, DECODING), "died") == 1


@pytest.mark.parametrize(
    ("unit_no", "phase", "is_given_up"),
    [(1, DECODING, False), (1, ESTIMATING, False), (1, -1, True), (1, STARTING, False),
     (3, DECODING, True),
     (3, ESTIMATING, False)],
)  # fmt: skip
def test_a_frame_is_left_out_unless_nothing_after_it_can_be_read(
    ledger, unit_no, phase, is_given_up
):
    ledger.record_crash(unit_no, (2, DECODING), "not given up")
    ledger.give_up(unit_no, (5, phase), "three times")
    (unit,) = ledger.load_units([unit_no], CLIPS)
    if is_given_up:
        assert (unit.skip, unit.give_up) == ({}, (5, "three times"))
    else:
        assert (unit.skip, unit.give_up) == ({5: "three times"}, None)


def test_the_first_frame_that_cannot_be_passed_counts(ledger):
    for frame in (9, 4, 6):
        ledger.give_up(3, (frame, DECODING), f"at {frame}")
    (unit,) = ledger.load_units([3], CLIPS)
    assert unit.give_up == (4, "at 4")


def test_a_failed_picture_becomes_a_unit_of_its_own(ledger):
    commit(ledger, progress(4, 3, 4, rows=3, is_done=True, lost=[lost(2)]))
    assert ledger.reset_failed() == 1
    assert counts(ledger)["dev"] == (0, 4, 3, 0, 0)
    assert ledger.costs_to_do()[-1] == (5, 1)
    (unit,) = ledger.load_units([5], CLIPS)
    assert (unit.start_frame, unit.stop_frame, unit.next_frame) == (2, 3, 2)
    assert ledger.reset_failed() == 0


def test_a_failed_frame_of_a_chain_makes_the_whole_unit_start_anew(ledger):
    commit(ledger, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    ledger.give_up(1, (3, ESTIMATING), "three times")
    assert ledger.reset_failed() == 1
    assert counts(ledger)["train"] == (0, 10, 0, 0, 0)
    (unit,) = ledger.load_units([1], CLIPS)
    assert (unit.next_frame, unit.state, unit.skip) == (0, None, {})


def test_a_failed_video_keeps_its_length_and_a_replaced_one_gets_another(ledger):
    commit(ledger, progress(3, 2, 7, rows=5, is_done=True, lost=[lost(5, 2)]))
    assert counts(ledger)["train"] == (1, 17, 5, 2, 0)
    assert ledger.reset_failed() == 1
    assert counts(ledger)["train"] == (0, 17, 0, 0, 0)
    assert ledger.with_lengths(CLIPS)[1].num_frames == 7
    ledger.reset_failed(CLIPS, {2: 9})
    assert counts(ledger)["train"] == (0, 19, 0, 0, 0)
    assert ledger.with_lengths(CLIPS)[1].num_frames == 9


def test_a_clip_that_changed_starts_anew_as_a_whole(ledger):
    commit(ledger, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    commit(ledger, progress(2, 1, 10, rows=4, is_done=True), first_frame=6)
    ledger.reset_failed(CLIPS, {1: 12})
    assert counts(ledger)["train"] == (0, 12, 0, 0, 0)
    assert [unit.next_frame for unit in ledger.load_units([1, 2], CLIPS)] == [0, 6]


def test_what_is_to_be_done_again_is_not_finished_from_the_same_moment_on(ledger):
    commit(ledger, progress(4, 3, 4, rows=3, is_done=True, lost=[lost(2)]))
    with ledger.transaction():
        ledger.set_meta(finished_at="then")
    ledger.reset_failed()
    assert ledger.finished_at() is None


def test_counts_that_do_not_add_up_are_an_error(ledger):
    commit(ledger, progress(1, 1, 6, rows=6, is_done=True))
    with pytest.raises(
        RunError, match=r"14 frames in, 6 out, 0 failed \(6 counted\); please report"
    ):
        ledger.check_totals()


def test_what_was_not_flushed_is_given_up_at_the_end(tmp_path):
    with closing(Ledger(tmp_path)) as ledger:
        ledger.add_plan(CLIPS, UNITS)
        commit(ledger, progress(1, 1, 2, rows=2))  # flushed: the last flush is long ago
        commit(ledger, progress(1, 1, 4, rows=2))
    with closing(Ledger(tmp_path)) as ledger:
        (unit,) = ledger.load_units([1], CLIPS)
        assert unit.next_frame == 2
        commit(ledger, progress(1, 1, 3, rows=1))
        commit(ledger, progress(1, 1, 5, rows=2))
        ledger.flush(only_if_due=True)  # not yet
        ledger.flush()
    with closing(Ledger(tmp_path)) as ledger:
        (unit,) = ledger.load_units([1], CLIPS)
        assert unit.next_frame == 5


def test_changes_of_the_source_are_named(ledger):
    assert ledger.changes_of(CLIPS) == ([], [], True, [])
    longer = dataclasses.replace(CLIPS[0], version="other")
    new = Clip("x", "/frames/x", "frames", "dev", num_frames=1)
    lines, changed, only_failed, _ = ledger.changes_of([longer, CLIPS[1], new])
    assert lines == ["train/a is not the same", "dev/x is new", "dev/c is gone"]
    assert changed == [1]
    assert not only_failed
    commit(ledger, progress(1, 1, 6, rows=5, is_done=True, lost=[lost(3)]))
    assert ledger.changes_of([longer, *CLIPS[1:]]) == (["train/a is not the same"], [1], True, [])
    assert ledger.changes_of(CLIPS[:2]).only_failed is False
    ledger.reset_failed([longer, *CLIPS[1:]], {1: 11})
    assert ledger.changes_of([longer, *CLIPS[1:]]) == ([], [], True, [])
