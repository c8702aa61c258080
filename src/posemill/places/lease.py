"""One writer at a place: a lease with an epoch, which rests on create-if-absent alone.

Epoch 7 is the object `lease/00000007.json`. Whoever creates it has it, and from then on writes it
again and again. Whoever wants to work looks at the highest one: released, or not written again for
`PATIENCE_SECONDS` by the looker's own clock, it is free, and the looker creates the next. No two
clocks are ever compared.

That keeps two from working at once; it is no proof, since a writer may sleep for an hour and go on.
What makes double work harmless is `posemill.runs.records`: an old epoch cannot write there.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from posemill.errors import PlaceError, RunError
from posemill.files import parse_json
from posemill.machine.live_files import now_text
from posemill.messages import Message
from posemill.places import Place

RENEW_SECONDS = 5.0
PATIENCE_SECONDS = 30.0
_PREFIX = "lease/"


@dataclass(frozen=True)
class Holder:
    """Who works on a run, since when (UTC)."""

    pid: int
    host: str
    started_at: str

    def describe(self) -> Message:
        """Return who it is, for a sentence."""
        template = "pid {pid} on {host} since {started_at}"
        return Message(template, pid=self.pid, host=self.host, started_at=self.started_at)


@dataclass(frozen=True)
class LeaseState(Holder):
    """The lease as its object has it."""

    epoch: int
    owner: str  # processes of one owner know by other means that the last one is gone
    beat: int = 0  # how often it was written
    is_released: bool = False
    live: Mapping[str, Any] = field(default_factory=dict)  # what the holder says about its work
    written_at: float = 0.0  # by the clock of the place: only to be shown


def worked_on(name: str, holder: Holder) -> RunError:
    """Return the error for a run of another process."""
    return RunError(
        "{run} is being worked on by {holder}; look with: posemill status {run!q}; end it with: "
        "posemill stop {run!q}",
        run=name,
        holder=holder.describe(),
    )


def read_lease(place: Place) -> LeaseState | None:
    """Return the lease of the highest epoch; None where nobody ever had one."""
    last = max(place.list(_PREFIX), default=None)  # old ones are removed: two or three
    content = place.get(last.key) if last else None
    if last is None or content is None:
        return None
    try:
        return LeaseState(**{**parse_json(content), "written_at": last.modified_at})
    except (ValueError, TypeError) as error:
        raise RunError(
            "{lease} is not a lease of posemill: {error}; if nobody works on {place}, delete it",
            lease=place.name_of(last.key),
            error=error,
            place=place.name_of(),
        ) from error


class Lease:
    """Held while a coordinator works at a place; renewed by a thread.

    A lease of the same owner is taken over at once. `live` says at each renewal what is to be told;
    `on_wait` hears again and again for whose silence is waited, and what it raises ends the wait.
    """

    def __init__(
        self,
        place: Place,
        owner: str,
        *,
        live: Callable[[], Mapping[str, Any]] = dict,
        on_wait: Callable[[LeaseState], None] = lambda _: None,
    ) -> None:
        self._place, self._live = place, live
        last = read_lease(place)
        if last is not None and not last.is_released and last.owner != owner:
            self._wait_for_silence(last, on_wait)
        self.epoch = 1 if last is None else last.epoch + 1
        self._state = LeaseState(os.getpid(), socket.gethostname(), now_text(), self.epoch, owner)
        if not place.create(_key(self.epoch), _content(self._state)):
            raise worked_on(place.name_of(), read_lease(place) or self._state)
        if last is not None:
            place.delete(_key(last.epoch))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_on, name="lease", daemon=True)
        self._thread.start()

    def _wait_for_silence(self, last: LeaseState, on_wait: Callable[[LeaseState], None]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            on_wait(last)
            time.sleep(min(0.25, PATIENCE_SECONDS / 8))
            now = read_lease(self._place)
            if now is None or now.is_released:
                return
            if (now.epoch, now.beat) != (last.epoch, last.beat):
                raise worked_on(self._place.name_of(), now)

    def _renew_on(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            with suppress(PlaceError):  # records cannot be written either, which says it
                self.renew()

    def renew(self, *, is_released: bool = False) -> None:
        """Write the lease again, unless another epoch has begun."""
        if any(True for _ in self._place.list(_PREFIX, after=_key(self.epoch))):
            return
        self._state = replace(
            self._state, beat=self._state.beat + 1, is_released=is_released, live=self._live()
        )
        self._place.put(_key(self.epoch), _content(self._state))

    def release(self) -> None:
        """Give it back, so that the next one need not wait."""
        self._ended.set()
        self._thread.join()
        with suppress(PlaceError):  # the next one waits, and that is all
            self.renew(is_released=True)


def _key(epoch: int) -> str:
    return f"{_PREFIX}{epoch:08d}.json"


def _content(state: LeaseState) -> bytes:
    # The beat and the pid make it one's own: see `Place.create`.
    return json.dumps(vars(state), default=str).encode()
