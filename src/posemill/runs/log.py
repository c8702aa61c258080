"""Events on their way into a ledger: in their order, at the run's place first where that is
elsewhere, by a thread of its own, so that who supervises workers never waits for a disk or a store.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from posemill.errors import RunError
from posemill.runs.events import Event
from posemill.runs.ledger import Ledger
from posemill.runs.manifest import LEDGER_NAME
from posemill.runs.records import SNAPSHOT_EVERY, RecordLog

# One flush to the disk serves all events of this span; a single one is flushed at once.
FLUSH_SECONDS = 0.3
RECORD_SECONDS = 1.0  # where a flush is an object
_MOST_WAITING = 64  # flushes that are not durable yet; then whoever appends waits


class EventLog:
    """Writes the events of a run into its ledger here; `records` are of one that lies elsewhere."""

    def __init__(self, folder: Path, records: RecordLog | None = None) -> None:
        self.ledger, self._records = Ledger(folder / LEDGER_NAME), records
        self._number = self.ledger.number
        self._flush_seconds = FLUSH_SECONDS if records is None else RECORD_SECONDS
        self._flushed_at = 0.0
        self._events: list[Event] = []
        self._waiting: deque[Future[None]] = deque()
        self._has_failed = False
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
            wait([self._waiting[-1]], timeout=0.2)
            self._forget_written()

    def _hand_over(self) -> None:
        if not self._events:
            return
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._write, self._events))
        self._events, self._flushed_at = [], time.monotonic()

    def _forget_written(self) -> None:
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()

    def _write(self, events: Sequence[Event]) -> None:
        if self._has_failed:
            raise RunError("the events before these could not be written")
        self._has_failed, number = True, self._number + 1
        with self.ledger.transaction(number):
            for event in events:
                self.ledger.apply(event)
            if self._records is not None:
                self._records.publish(events, number)
        self._has_failed, self._number = False, number
        if self._records is not None and number % SNAPSHOT_EVERY == 0:
            self._records.put_snapshot(self.ledger, number)

    def close(self) -> None:
        """Give up what was not flushed, and close the ledger."""
        self._thread.shutdown(cancel_futures=True)
        self.ledger.close()
