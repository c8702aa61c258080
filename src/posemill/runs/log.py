"""Events on their way into a ledger: in their order, at the run's place first where that is
elsewhere, by a thread of its own, so that who supervises workers never waits for a disk or a store.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from posemill.errors import RunError
from posemill.runs.events import Committed, Event
from posemill.runs.ledger import Ledger
from posemill.runs.manifest import LEDGER_NAME
from posemill.runs.records import SNAPSHOT_EVERY, RecordLog

# One flush to the disk serves all events of this span; a single one is flushed at once.
FLUSH_SECONDS = 0.3
RECORD_SECONDS = 1.0  # where a flush is an object
_MOST_WAITING = 64  # flushes that are not durable yet; then whoever appends waits


class _Batch(NamedTuple):
    number: int
    events: Sequence[Event]
    future: Future[None]


class EventLog:
    """Writes the events of a run, into the ledger in its folder here, which nobody else writes.

    Of a run that lies elsewhere each batch goes through `records` first.
    """

    def __init__(self, folder: Path, records: RecordLog | None = None) -> None:
        self.ledger, self.records = Ledger(folder / LEDGER_NAME), records
        self._written = self._number = self.ledger.number
        self._flush_seconds = FLUSH_SECONDS if records is None else RECORD_SECONDS
        self._flushed_at = 0.0
        self._events: list[Event] = []
        self._waiting: deque[_Batch] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="events")

    def record(self, *events: Event) -> None:
        """Write events behind all that came before; they are durable when it returns."""
        self._events += events
        self.flush()

    def append(self, event: Event) -> None:
        """Take an event; it is durable after a flush. Waits only if very many are on their way."""
        self._events.append(event)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Hand over what was appended, if the last time is long enough ago."""
        self._forget_written()
        if time.monotonic() - self._flushed_at >= self._flush_seconds:
            self._hand_over()

    def flush(self, is_urgent: Callable[[], bool] = lambda: False) -> None:
        """Make all that was appended durable; if it gets urgent, leave the rest on its way."""
        self._hand_over()
        while self._waiting and not is_urgent():
            wait([self._waiting[-1].future], timeout=0.2)
            self._forget_written()

    def _hand_over(self) -> None:
        if not self._events:
            return
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting[0].future.result()
            self._forget_written()
        self._number += 1
        events, self._events = self._events, []
        future = self._thread.submit(self._write, events, self._number)
        self._waiting.append(_Batch(self._number, events, future))
        self._flushed_at = time.monotonic()

    def _forget_written(self) -> None:
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft().future.result()

    def _write(self, events: Sequence[Event], number: int) -> None:
        if number != self._written + 1:
            raise RunError("the events before these could not be written")
        with self.ledger.transaction(number):
            for event in events:
                self.ledger.apply(event)
            if self.records is not None:
                self.records.publish(events)
        self._written = number
        if self.records is not None and number % SNAPSHOT_EVERY == 0:
            self.records.put_snapshot(self.ledger)

    def frames_after(self, number: int) -> Counter[str]:
        """Return the frames by split that a ledger of that number does not have yet."""
        frames: Counter[str] = Counter()
        batches = [batch.events for batch in self._waiting if batch.number > number]
        for event in itertools.chain(*batches, self._events):
            for unit in event.units if isinstance(event, Committed) else ():
                frames[unit.split] += unit.num_rows + sum(lost.num_frames for lost in unit.lost)
        return frames

    def close(self) -> None:
        """Give up what was not flushed, and close the ledger."""
        self._thread.shutdown(cancel_futures=True)
        self.ledger.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
