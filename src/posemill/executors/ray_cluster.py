"""Tasks on the machines of a Ray cluster, or on a cluster of this machine alone.

Each slot is an actor, in which one supervised process runs, as locally (`ProcessExecutor`). Where
a whole machine ends, its workers `Died` from outside, and slots are asked for again.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from posemill import __version__
from posemill.errors import RunError
from posemill.executors import Died, Event, Executor, Finished, Limits, MakeFunction, Worker
from posemill.executors.processes import ProcessExecutor
from posemill.executors.threads import NOWHERE, Slot
from posemill.files import atomic_path, cache_folder
from posemill.messages import Message
from posemill.terminal import warn_once

# Ray would tell its makers of every run, and warn of what it will do some day.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
import ray
import ray._private.ray_constants as ray_constants

_VERSIONS = f"posemill {__version__}, Python {sys.version_info[0]}.{sys.version_info[1]}"
_TICK_SECONDS = 0.2
_NEWS_SECONDS = 2.0  # that a slot waits for something to say; of many slots each waits longer
_NEWS_PER_SECOND = 100  # from slots that have nothing to say, all together
_SILENT_SECONDS = 60.0  # a slot that says nothing at all is given up; Ray notices most ends before
_LOOK_SECONDS = 10.0  # between looks at what the cluster has
_PATIENCE_SECONDS = 30.0  # before it is said that the cluster has no room
_ANSWER_SECONDS = 5.0
_LEAST_STORE = 80 << 20  # of Ray's shared memory: all that goes through it are tasks and events


class _RemoteSlot(Slot):
    """The inside of an actor: one supervised process, and what happened until it is asked for."""

    def __init__(self, index: int, make_function: MakeFunction, limits: Limits) -> None:
        if limits.log_folder is not None and not limits.log_folder.is_dir():
            limits = replace(limits, log_folder=None)  # another machine: Ray keeps what it prints
        self._must_see = limits.must_see
        executor = ProcessExecutor(1, limits, first_index=index)
        super().__init__(executor, make_function, queue.SimpleQueue(), index)

    def about(self, files: Mapping[str, bytes]) -> dict[str, Any]:
        """Return who this is, after keeping the files that the machine has not in its cache."""
        for name, content in files.items():
            path = cache_folder() / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_path(path) as temporary:
                    temporary.write_bytes(content)
        return {
            "host": socket.gethostname(),
            "versions": _VERSIONS,
            "sees_run": self._must_see is None or self._must_see.exists(),
        }

    def news(self, seconds: float) -> tuple[tuple[int, ...], list[Event | RunError]]:
        """Return where it is and what happened, as soon as something does or after a time."""
        events: list[Event | RunError] = []
        with suppress(queue.Empty):
            _, event = self._events.get(timeout=seconds)
            while True:
                events.append(_with_host(event))
                _, event = self._events.get_nowait()
        return self.place, events


def _with_host(event: Event | Exception) -> Event | RunError:
    """Return an event that says, where it is bad news, which machine it is from."""
    host, kind = socket.gethostname(), type(event).__name__
    if isinstance(event, Exception):
        return RunError("{host}: {kind}: {error}", host=host, kind=kind, error=event)
    if isinstance(event, Died):
        return replace(event, reason=Message("{host}: {reason}", host=host, reason=event.reason))
    return event


@dataclass
class _Actor(Worker):
    """A slot, from this side."""

    index: int
    handle: Any
    answer: Any  # what it was asked last
    task: Any = None
    place: tuple[int, ...] = NOWHERE
    host: str = ""  # empty until it answered
    silent_seconds: float = 0.0  # while somebody listened: who reads the events may be busy

    @property
    def is_idle(self) -> bool:
        return bool(self.host) and self.task is None

    def give(self, task: Any) -> None:
        self.task, self.place = task, NOWHERE
        self.handle.give.remote(task)

    def ask_to_stop(self) -> None:
        self.handle.ask_to_stop.remote()


class RayExecutor(Executor):
    """Runs the function in `num_workers` actors, each a worker; `Limits` say on which cluster."""

    _workers: dict[int, _Actor]
    _files: Any
    _actor_type: Any
    _next_look, _patient_until = 0.0, math.inf

    def run(
        self, make_function: MakeFunction, next_task: Callable[[], Any | None]
    ) -> Iterator[Event]:
        """Yield what happens, see `Executor.run`."""
        with connected(self._limits.address, len(self._indices)):
            files = {name: path.read_bytes() for name, path in self._limits.files.items()}
            self._files = ray.put(files)
            self._actor_type = ray.remote(_RemoteSlot).options(
                num_cpus=1,
                num_gpus=self._limits.gpus_per_worker,
                max_restarts=0,
                max_concurrency=4,
                scheduling_strategy="SPREAD",
            )
            self._patient_until = time.monotonic() + _PATIENCE_SECONDS
            yield from super().run(make_function, next_task)

    def _start(self, index: int, make_function: MakeFunction) -> _Actor:
        """Ask for a slot; one that the cluster has no room for waits for it."""
        handle = self._actor_type.remote(index, make_function, self._limits)
        return _Actor(index, handle, handle.about.remote(self._files))

    def _close(self) -> None:
        for actor in self._workers.values():
            ray.kill(actor.handle)

    def _listen(self) -> Iterator[Event]:
        answers = {actor.answer: actor for actor in self._workers.values()}
        started = time.monotonic()
        ready, _ = ray.wait(list(answers), timeout=_TICK_SECONDS)
        for actor in self._workers.values():
            actor.silent_seconds += time.monotonic() - started
        if ready:  # all that are there by now: to wait for one of a thousand takes milliseconds
            ready, _ = ray.wait(list(answers), num_returns=len(answers), timeout=0)
        else:
            yield None
        for answer in ready:
            yield from self._receive(answers[answer])
        self._check()

    def _receive(self, actor: _Actor) -> Iterator[Event]:
        try:
            answer = ray.get(actor.answer)
        except ray.exceptions.RayActorError as error:
            del self._workers[actor.index]
            # One that never answered may not be able to: no posemill there, another Python.
            has_begun = bool(actor.host)
            yield Died(actor.task, actor.place, first_line(error), actor.index, has_begun)
            return
        except ray.exceptions.RayError as error:
            template = "a worker of the Ray cluster failed: {error}"
            raise RunError(template, error=first_line(error)) from error
        actor.silent_seconds = 0.0
        if not actor.host:
            self._check_machine(answer)
            actor.host = answer["host"]
        else:
            place, events = answer
            actor.place = actor.place if place == NOWHERE else place
            for event in events:
                if isinstance(event, RunError):
                    raise event
                if isinstance(event, Finished | Died) and event.task is not None:
                    actor.task = None
                yield event
        pause = min(max(_NEWS_SECONDS, len(self._workers) / _NEWS_PER_SECOND), _SILENT_SECONDS / 3)
        actor.answer = actor.handle.news.remote(pause)

    def _check_machine(self, about: Mapping[str, Any]) -> None:
        """Refuse a machine that would not compute the same, or could not write the result."""
        if about["versions"] != _VERSIONS:
            template = "{host} has {versions}, we have {ours}; install the same on all machines"
            raise RunError(template, ours=_VERSIONS, **about)
        if not about["sees_run"]:
            raise RunError(
                "{host} does not see {path}: with several machines the run must be "
                "on a file system that all share, or in an object store (s3://…)",
                path=self._limits.must_see,
                **about,
            )

    def _check(self) -> None:
        node = ray._private.worker._global_node
        if gone := [] if node is None else [kind for kind, _ in node.dead_processes()]:
            raise RunError(  # before Ray ends us
                "the Ray cluster of this machine has lost its process {gone}: somebody ended it, "
                "or memory was short; everything committed so far is safe: run the same command "
                "again",
                gone=", ".join(gone),
            )
        now = time.monotonic()
        if self._limits.is_elastic and now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            room = count_room(self._limits.gpus_per_worker)
            self._indices = range(max(len(self._indices), room))
        for actor in self._workers.values():
            if actor.host and actor.silent_seconds > _SILENT_SECONDS:
                ray.kill(actor.handle)  # the answer that is waited for becomes an error
        if any(actor.host for actor in self._workers.values()):
            self._patient_until = math.inf
        if now > self._patient_until:
            self._patient_until = math.inf
            free: dict[str, float] = ray.available_resources()
            warn_once(
                Message(
                    "waiting for the Ray cluster: {num_workers:worker|workers} of 1 CPU and "
                    "{gpus:g} GPU each are asked for, {free_cpus:g} CPU and {free_gpus:g} GPU are "
                    "free",
                    num_workers=len(self._indices),
                    gpus=self._limits.gpus_per_worker,
                    free_cpus=free.get("CPU", 0),
                    free_gpus=free.get("GPU", 0),
                )
            )


@contextmanager
def connected(address: str, num_workers: int = 0) -> Iterator[None]:
    """Connect for as long as the block runs; a connection of the caller's own is used as it is.

    The address is `auto` for the cluster this machine is part of, `host:port`, `ray://host:10001`,
    or empty for one of this machine alone, with `num_workers` CPUs. `RunError` if none answers.
    """
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address}
    template = (
        "no Ray cluster could be used at {address}: {error}; start one with `ray start "
        "--head` and the same versions of Ray and Python, or leave out {--ray-address} "
        "for one of this machine alone"
    )
    if not address:
        options = {"address": "local", "num_cpus": num_workers, "include_dashboard": False}
        options["object_store_memory"] = _LEAST_STORE
        template = "no Ray cluster could be started on this machine: {error}"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # where nobody answers, Ray would try for many minutes
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        with _as_before(address):
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise RunError(template, address=address, error=first_line(error)) from error
    try:
        yield
    finally:
        ray.shutdown()


def first_line(error: BaseException) -> str:
    """Return what Ray says of an error without the pages it says after."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def about_cluster(address: str) -> dict[str, Any]:
    """Return what a cluster has: machines that answer, CPUs and GPUs, and how many are free."""
    with connected(address):
        resources, free = ray.cluster_resources(), ray.available_resources()
        return {
            "address": address,
            "machines": sum(node["Alive"] for node in ray.nodes()),
            "cpus": resources.get("CPU", 0.0),
            "free_cpus": free.get("CPU", 0.0),
            "gpus": resources.get("GPU", 0.0),
            "free_gpus": free.get("GPU", 0.0),
        }


def count_room(gpus_per_worker: float = 0.0) -> int:
    """Return how many workers all machines of the connected cluster have room for."""
    resources: dict[str, float] = ray.cluster_resources()
    return int(
        resources.get("GPU", 0) / gpus_per_worker if gpus_per_worker else resources.get("CPU", 0)
    )


@contextmanager
def _as_before(address: str) -> Iterator[None]:
    # Ray has this for Macs, whose firewalls would ask: a cluster alone listens to its machine only;
    # an address given to `init` it replaces.
    is_open = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = is_open and bool(address)
    # And it puts handlers of its own in the place of what Ctrl-C and SIGTERM do.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = is_open
        for number, handler in before.items():
            if threading.current_thread() is threading.main_thread() and handler is not None:
                signal.signal(number, handler)
