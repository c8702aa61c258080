"""A run that was made here, put where others see it: at a URI, as records and shards.

Shards first, under names that no other writer has, then events that add up to its ledger, then the
manifest, which makes it a run. Killed before that there is no run, and the next one begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from pathlib import Path

from posemill.errors import RunError
from posemill.places import Place, open_place
from posemill.runs.events import (
    Committed,
    Event,
    Finished,
    Lost,
    Piece,
    Planned,
    PlannedClip,
    Shard,
    UnitProgress,
)
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.manifest import MANIFEST_NAME, SHARDS_NAME
from posemill.runs.queries import LedgerReader, read_ledger

_AT_ONCE = 8
_ROWS_PER_RECORD = 20_000


def refuse_taken(uri: str) -> None:
    """Raise where there is a run already."""
    if open_place(uri).look(MANIFEST_NAME) is not None:
        raise RunError("{uri} holds a run already; choose another place", uri=uri)


def publish_run(folder: Path, uri: str) -> None:
    """Put a finished run of this machine at a URI.

    Raises:
        RunError: There is a run, or something else, or somebody works there.
        PlaceError: The place refuses.
    """
    home = RunHome.at(uri)
    with home.owned() as records:
        assert records is not None  # a URI is elsewhere
        refuse_taken(uri)
        place = records.place
        names = _put_shards(folder, place, records.epoch)
        with EventLog(home.work, records) as log:
            for event in events_of(folder, names):
                log.append(event)
            log.flush()
        if not place.create(MANIFEST_NAME, (folder / MANIFEST_NAME).read_bytes()):
            raise RunError(
                "{uri}: another process has put a run there; choose another place", uri=uri
            )
    RunHome.at(uri)


def _put_shards(folder: Path, place: Place, epoch: int) -> dict[str, str]:
    """Return the new names by the old ones; a writer that was cut off has others."""
    paths = sorted((folder / SHARDS_NAME).iterdir())
    names = {path.name: f"merged-{epoch:06d}-{path.name}" for path in paths}
    for entry in list(place.list(f"{SHARDS_NAME}/")):
        place.delete(entry.key)  # of one that was killed: without a manifest they are nothing

    def put(path: Path) -> None:
        place.put(f"{SHARDS_NAME}/{names[path.name]}", path.read_bytes())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(put, paths))
    return names


def events_of(folder: Path, names: Mapping[str, str]) -> Iterator[Event]:
    """Yield the events that make a finished run without a plan what it is.

    Args:
        folder: Of the run.
        names: The names of its shards where they are now, by those in the ledger.
    """
    with read_ledger(folder) as ledger:
        yield Planned(ledger.planned_run() or "")
        rows = ledger.execute(
            "SELECT split, clip_id, num_frames, content FROM clips ORDER BY clip_no"
        )
        while clips := rows.fetchmany(_ROWS_PER_RECORD):
            yield Committed(None, (), tuple(starmap(PlannedClip, clips)))
        shards = ledger.execute(
            "SELECT shard_no, name, num_rows, num_bytes, checksum FROM shards ORDER BY shard_no"
        ).fetchall()
        for shard_no, name, num_rows, num_bytes, checksum in shards:
            rows = ledger.execute(
                "SELECT clip_no, first_frame, row_offset, num_rows, unit_no, found FROM pieces "
                "WHERE shard_no = ? ORDER BY piece_no",
                (shard_no,),
            )
            pieces = tuple(starmap(Piece, rows))
            yield Committed(Shard(names[name], num_rows, num_bytes, pieces, checksum), ())
        yield from _clips_done(ledger)
        yield Finished(ledger.finished_at() or "")


def _clips_done(ledger: LedgerReader) -> Iterator[Committed]:
    """Yield of every clip how many rows it has, and what failed of it."""
    lost: dict[int, list[Lost]] = {}
    for clip_no, *values in ledger.execute(
        "SELECT clip_no, frame_index, num_frames, path, reason, message FROM failures "
        "ORDER BY failure_no"
    ):
        lost.setdefault(clip_no, []).append(Lost(*values))
    rows = ledger.execute(
        "SELECT clip_no, split, (SELECT coalesce(sum(num_rows), 0) FROM pieces "
        "WHERE pieces.clip_no = clips.clip_no) FROM clips ORDER BY clip_no"
    )
    while clips := rows.fetchmany(_ROWS_PER_RECORD):
        yield Committed(
            None,
            tuple(
                UnitProgress(
                    None,
                    clip_no,
                    split,
                    next_frame=num_rows,
                    state=None,
                    is_done=True,
                    num_rows=num_rows,
                    lost=tuple(lost.get(clip_no, ())),
                )
                for clip_no, split, num_rows in clips
            ),
        )
