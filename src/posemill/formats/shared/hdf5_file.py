"""A file for the HDF5 library that never fails while it writes; its owner asks for errors himself.

The library does not survive a write that fails (a full disk): it cannot close the file any more
and brings the process down at its end. So what does not fit on the disk stays in memory, the
library goes on, and `raise_failure` tells when it is safe to.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType


class DeferredErrorFile:
    """A new file with the methods h5py calls; a context manager.

    Ask `raise_failure` after every piece of work: what is written after a failure is held in
    memory until then.
    """

    def __init__(self, path: Path) -> None:
        self._raw = path.open("w+b", buffering=0)
        self._at = 0
        # Not the error itself: it would keep alive all that its traceback leads to.
        self._failure: tuple[int | None, str | None] | None = None
        self._held: list[tuple[int, bytes]] = []  # in the order of writing

    def raise_failure(self) -> None:
        """Raise the first error of the disk, if there was one."""
        if self._failure is not None:
            raise OSError(*self._failure)

    def write(self, data: memoryview) -> int:
        """Write at the position; return how many bytes, which is always all."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            if self._failure is None:
                self._raw.seek(self._at)
                while done < len(view):
                    done += self._raw.write(view[done:])
        except OSError as error:
            self._failure = error.errno, error.strerror
        if done < len(view):
            self._held.append((self._at + done, bytes(view[done:])))
        self._at += len(view)
        return len(view)

    def readinto(self, buffer: memoryview) -> int:
        """Read at the position; return how many bytes, zeros where nothing was written."""
        view = memoryview(buffer).cast("B")
        self._raw.seek(self._at)
        done = 0
        while count := self._raw.readinto(view[done:]):
            done += count
        view[done:] = bytes(len(view) - done)
        for start, data in self._held:
            first, last = max(start, self._at), min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[first - start : last - start]
        self._at += len(view)
        return len(view)

    def read(self, size: int) -> bytes:
        """Return so many bytes at the position; h5py knows a file by this method."""
        data = bytearray(size)
        self.readinto(memoryview(data))
        return bytes(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place and return it."""
        if whence == os.SEEK_END:
            ends = [start + len(data) for start, data in self._held]
            offset += max(self._raw.seek(0, os.SEEK_END), *ends, 0)
        elif whence == os.SEEK_CUR:
            offset += self._at
        self._at = offset
        return offset

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def truncate(self, size: int) -> int:
        """Make the file this long."""
        try:
            if self._failure is None:
                self._raw.truncate(size)
        except OSError as error:
            self._failure = error.errno, error.strerror
        return size

    def flush(self) -> None:
        """Do nothing: every write goes to the system at once."""

    def __enter__(self) -> DeferredErrorFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._raw.close()
