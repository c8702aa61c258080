"""To a Ray cluster that is there, or to one of this machine alone, which ends with us."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from posemill.errors import RunError

# Ray would tell its makers of every run, and warn of what it will do some day.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
import ray
import ray._private.ray_constants as ray_constants

__all__ = ["about_cluster", "connected", "count_room", "expect_own_cluster", "first_line", "ray"]

_ANSWER_SECONDS = 5.0
_LEAST_STORE = 80 << 20  # of Ray's shared memory: all that goes through it are tasks and events


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
    try:
        _check_answers(address)
        with _as_before(address):
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise RunError(template, address=address, error=first_line(error)) from error
    try:
        yield
    finally:
        ray.shutdown()


def first_line(error: BaseException) -> str:
    """Return what Ray says of an error without the pages it says after."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def expect_own_cluster() -> None:
    """Raise `RunError` where a process of the machine's own cluster is gone, before Ray ends us."""
    node = ray._private.worker._global_node
    if gone := [] if node is None else [kind for kind, _ in node.dead_processes()]:
        raise RunError(
            "the Ray cluster of this machine has lost its process {gone}: somebody ended it, or "
            "memory was short; everything committed so far is safe: run the same command again",
            gone=", ".join(gone),
        )


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


def _check_answers(address: str) -> None:
    """Raise `ConnectionError` where nobody listens: Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        except OSError as error:
            raise ConnectionError(f"nothing answers there ({error.strerror or error})") from error


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
