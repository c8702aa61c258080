"""Objects as files of this machine for as long as they are read: a bounded folder, filled ahead."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from posemill.sources.names import suffix_of
from posemill.storage import split_uri

MOST_BYTES = 4 << 30  # of what is fetched ahead; what is asked for is fetched whatever its size
_PREFIX = "posemill-scratch-"
_AT_ONCE = 8


class Scratch:
    """A worker's folder for objects, in the system's folder for temporary files, or `--temp-dir`.

    It goes with its process. What a killed one left is removed by the next.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._num_bytes = most_bytes, 0
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scratch")
        self._ahead: dict[str, Future[Path | None]] = {}

    @contextmanager
    def file(self, uri: str, version: str = "") -> Iterator[Path]:
        """Yield a file with the content of an object; it is gone afterwards.

        Args:
            uri: Of the object.
            version: The one it must have; empty for any.

        Raises:
            ChangedError: It is another version by now, or has gone.
            StorageError: It cannot be had, or there is no room for it.
        """
        future = self._ahead.pop(uri, None)
        path = future.result() if future is not None else None
        if path is None:
            path = self._fetch(uri, version)
        try:
            yield path
        finally:
            with self._lock:
                self._num_bytes -= path.stat().st_size if path.exists() else 0
            path.unlink(missing_ok=True)

    def ahead(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Begin to fetch objects that `file` will be asked for, as far as there is room."""
        for uri, version in wanted:
            if uri not in self._ahead:
                self._ahead[uri] = self._pool.submit(self._fetch_if_it_fits, uri, version)

    def _fetch_if_it_fits(self, uri: str, version: str) -> Path | None:
        storage, key = split_uri(uri)
        entry = storage.look(key)
        if entry is None or not self._reserve(entry.num_bytes):
            return None  # its turn comes, and then the reason is told
        try:
            return self._fetch(uri, version)
        finally:
            self._reserve(-entry.num_bytes)  # the file itself counts by now

    def _reserve(self, num_bytes: int) -> bool:
        """Count bytes before they come, so that fetches side by side keep to the bound."""
        with self._lock:
            if num_bytes > 0 and self._num_bytes + num_bytes > self._most_bytes:
                return False
            self._num_bytes += num_bytes
            return True

    def _fetch(self, uri: str, version: str) -> Path:
        storage, key = split_uri(uri)
        path = self._make_folder() / f"{uuid.uuid4().hex}.{suffix_of(key) or 'bin'}"
        storage.fetch(key, path, version=version or None)
        with self._lock:
            self._num_bytes += path.stat().st_size
        return path

    def _make_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                parent = Path(tempfile.gettempdir())
                _remove_left_behind(parent)
                prefix = f"{_PREFIX}{socket.gethostname()}-{os.getpid()}-"
                self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder


def _remove_left_behind(parent: Path) -> None:
    import psutil

    prefix = f"{_PREFIX}{socket.gethostname()}-"
    for path in parent.glob(f"{prefix}*-*"):
        pid = path.name.removeprefix(prefix).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(path, ignore_errors=True)
