"""What happens to a run, in named events; the ledger is what they add up to.

An event is written as JSON with named fields: `{"kind": "Committed", …}`; rows of one kind as
columns under their names, so that a million of them stay small.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints


class Piece(NamedTuple):
    """Rows of one clip inside a shard: `num_rows` from `row_offset`, in frame order.

    `found` is JSON: in how many frames each part was found, and `[width, height, frames]` for each
    size of frames. `view` counts by it, without reading a shard.
    """

    clip_no: int
    first_frame: int
    row_offset: int
    num_rows: int
    unit_no: int | None = None
    found: str | None = None


@dataclass(frozen=True)
class Shard:
    """A shard that is whole on the disk, and what it holds."""

    name: str
    num_bytes: int
    pieces: tuple[Piece, ...]
    checksum: str = ""  # `shards.checksum_of`; empty where the name is that of no file


class Lost(NamedTuple):
    """Frames that gave no keypoints: one (`frame_index`), or the rest of a unit from it on."""

    frame_index: int | None
    num_frames: int
    path: str
    reason: str
    message: str


class UnitProgress(NamedTuple):
    """How far a unit is after a commit; no unit where a clip comes whole."""

    unit_no: int | None
    clip_no: int
    split: str
    next_frame: int
    state: bytes | None  # the tracker's before `next_frame`; None for a fresh one
    is_done: bool
    num_rows: int
    lost: tuple[Lost, ...] = ()


class PlannedClip(NamedTuple):
    """A clip, in the order of reading; `content` is a digest, to notice a change of the source."""

    split: str
    clip_id: str
    num_frames: int | None
    content: str | None = None


class PlannedUnit(NamedTuple):
    """A run of frames of one clip, before it has a number. `cost` is in frames."""

    clip_no: int
    start_frame: int
    stop_frame: int | None
    is_chain: bool
    is_video: bool
    cost: int


class ChangedClip(NamedTuple):
    """A clip that is not as it was when the run began, as it is now."""

    clip_no: int
    num_frames: int | None
    content: str


@dataclass(frozen=True)
class Planned:
    """The run begins: its clips and what is to be done. Whatever was recorded before goes."""

    run_id: str
    clips: tuple[PlannedClip, ...] = ()
    units: tuple[PlannedUnit, ...] = ()


@dataclass(frozen=True)
class Started:
    """A coordinator begins to work: the run is not finished any more."""


@dataclass(frozen=True)
class Committed:
    """A shard that is whole at its place, and the units it moves on."""

    shard: Shard | None  # None if no row was made
    units: tuple[UnitProgress, ...]


@dataclass(frozen=True)
class Crashed:
    """A worker died at a frame, for which only the frame can be to blame."""

    unit_no: int
    frame_index: int
    phase: int
    message: str


@dataclass(frozen=True)
class GaveUp(Crashed):
    """A frame is never tried again; with phase -1, nothing of the unit from there on."""


@dataclass(frozen=True)
class Reset:
    """Everything that failed is to be done again, and these clips as a whole."""

    clips: tuple[ChangedClip, ...] = ()


@dataclass(frozen=True)
class Finished:
    """Everything that was planned was tried; the time is UTC, ISO 8601."""

    finished_at: str


Event = Planned | Started | Committed | Crashed | GaveUp | Reset | Finished

_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain values with names."""
    return {"kind": type(event).__name__, **_plain(event)}


def from_json(content: Mapping[str, Any]) -> Event:
    """Return the event that `to_json` wrote; ValueError, TypeError or KeyError for another text."""
    kind = _KINDS[content["kind"]]
    return kind(**_fields(kind, content))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, tuple):
        return {name: _plain(item) for name, item in vars(value).items()}
    names = value[0]._fields if value else ()
    columns = zip(*value, strict=True)
    return {name: [*map(_plain, column)] for name, column in zip(names, columns, strict=True)}


_hints = cache(get_type_hints)  # the types of the fields of a kind, by their names


def _fields(kind: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(kind).items()
    return {name: _values(name, hint, [content[name]])[0] for name, hint in hints}


def _values(name: str, hint: Any, items: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a column of JSON; raise where one is of another type."""
    kinds = get_args(hint) or (hint,)
    if get_origin(hint) is tuple:
        return [_rows(kinds[0], columns) for columns in items]
    if Shard in kinds:
        return [None if item is None else Shard(**_fields(Shard, item)) for item in items]
    if not {*map(type, items)} <= {str if kind is bytes else kind for kind in kinds}:
        raise TypeError(f"{name} holds something else than {hint}: {items!r:.80}")
    if bytes in kinds:
        return [None if item is None else base64.b64decode(item) for item in items]
    return items


def _rows(kind: Any, columns: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
    if not columns:
        return ()
    values = [_values(name, hint, columns[name]) for name, hint in _hints(kind).items()]
    return tuple(itertools.starmap(kind, zip(*values, strict=True)))
