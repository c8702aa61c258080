"""Events as plain values with names, and back."""

from __future__ import annotations

import json

import pytest

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

LOST = Lost(None, 3, "/caf\udce9.mp4", "cut off", "it is")
UNITS = (
    UnitProgress(7, 1, "train", 5, b"\0state", False, 5, (LOST,)),
    UnitProgress(None, 2, "dev", 4, None, True, 4),
)
SHARD = Shard("x.parquet", 9, 100, (Piece(1, 0, 0, 5, 7, "[]"), Piece(2, 0, 5, 4)), "sum")


@pytest.mark.parametrize(
    "event",
    [
        Planned("id", (PlannedClip("a", "b", None),), (PlannedUnit(1, 0, None, True, False, 5),)),
        Planned("id"),
        Started(),
        Committed(SHARD, UNITS, (PlannedClip("a", "手語", 4, "digest"),)),
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
    content = to_json(Committed(None, UNITS))
    for wrong in ([{}, {}], [[], []], content["units"][column][:1]):
        damaged = content | {"units": content["units"] | {column: wrong}}
        with pytest.raises((TypeError, ValueError, KeyError)):
            from_json(damaged)
    del content["units"][column]
    with pytest.raises(KeyError, match=column):
        from_json(content)
