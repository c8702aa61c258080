"""Objects as files of this machine for as long as they are read: a bounded folder, filled ahead."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import psutil

from posemill.decoders.opening import suffix_of
from posemill.errors import DecodeError, PlaceError
from posemill.machine.disk import disk_message
from posemill.messages import Message
from posemill.places import split_uri, uri_of

MOST_BYTES = 1 << 30  # of an object that is fetched ahead; asked for, it may have any size
_AT_ONCE = 8
_LOOK_SECONDS = 1.0  # between two looks whether bytes are coming


class Scratch:
    """A worker's folder for objects, in the system's folder for temporary files, or `--temp-dir`.

    It goes with its process. What a killed one left is removed by the next.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scratch")
        self._ahead: dict[str, Future[Path | None]] = {}
        self._num_pieces = 0  # that came so far, of all objects

    @contextmanager
    def file(
        self, path: str, version: str = "", on_progress: Callable[[], None] = lambda: None
    ) -> Iterator[str]:
        """Yield a file of this machine: the path itself, or a copy of what lies at a URI.

        The copy is gone afterwards. `on_progress` is called now and then while bytes are coming.
        `ChangedError` where an object is another version by now, or has gone; `PlaceError` where it
        cannot be had, or there is no room for it.
        """
        if uri_of(path) is None:
            yield path
            return
        future = self._ahead.pop(path, None)
        copy = future and self._wait(future, on_progress)
        copy = copy or self._wait(self._submit(path, version), on_progress)
        assert copy is not None
        try:
            yield str(copy)
        except DecodeError as error:  # with the name that users know
            text = error.sentence.replace(str(copy), path)
            raise DecodeError("{text}", reason=error.reason, text=text) from None
        finally:
            copy.unlink(missing_ok=True)

    def _wait(self, future: Future[Path | None], on_progress: Callable[[], None]) -> Path | None:
        """Return what a fetch comes to; says that it goes on as long as bytes come."""
        seen = self._num_pieces
        while not wait([future], _LOOK_SECONDS).done:
            if seen != self._num_pieces:
                seen = self._num_pieces
                on_progress()
        return future.result()

    def ahead(self, wanted: Iterable[tuple[str, str, int | None]]) -> None:
        """Begin to fetch objects that `file` will be asked for, unless they are very large.

        Of each the path or URI, the version, and the size: one that is not known is looked up.
        """
        for path, version, num_bytes in wanted:
            if path not in self._ahead and uri_of(path) is not None:
                self._ahead[path] = self._submit(path, version, num_bytes)

    def _submit(self, uri: str, version: str, num_bytes: int | None = 0) -> Future[Path | None]:
        return self._pool.submit(self._fetch, uri, version, self.folder, num_bytes)

    def _fetch(self, uri: str, version: str, folder: Path, num_bytes: int | None) -> Path | None:
        """Return the copy of an object; None if its size, where one is given, is too much."""
        place, key = split_uri(uri)
        if num_bytes is None:
            entry = place.look(key)
            num_bytes = MOST_BYTES + 1 if entry is None else entry.num_bytes
        if num_bytes > MOST_BYTES:
            return None  # its turn comes, and then the reason is told
        path = folder / f"{uuid.uuid4().hex}.{suffix_of(key) or 'bin'}"
        try:
            # Not `Place.fetch`: nobody needs these files after a crash, and to flush each to the
            # disk takes longer than a picture itself.
            with path.open("wb") as handle:
                for piece in place.read(key, version or None):
                    handle.write(piece)
                    self._num_pieces += 1
        except BaseException as error:
            path.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            saved = Message("{name} was not copied", name=place.name_of(key))
            raise PlaceError(disk_message(error, str(folder), saved=saved)) from error
        return path

    @cached_property
    def folder(self) -> Path:
        """Where the copies are; made when the first one is asked for."""
        # Of those whose process ids mean the same here as there: containers with one name may
        # share a folder for temporary files, and have ids of their own.
        space = "0"
        with suppress(OSError):  # not Linux
            space = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))  # noqa: PTH115
        prefix = f"posemill-scratch-{socket.gethostname()}-{space}-"
        for path in Path(tempfile.gettempdir()).glob(f"{prefix}*-*"):
            pid = path.name.removeprefix(prefix).partition("-")[0]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(path, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder
