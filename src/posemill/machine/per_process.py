"""Handles that every process opens for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Handle = TypeVar("Handle")


class PerProcess(Generic[Handle]):
    """An open file or the like, which travels to another process without what is open.

    After a fork the position in a file is shared, and a handle of another process must not be used.

    Args:
        open_handle: Opens it; called once in each process that asks, and picklable.
    """

    def __init__(self, open_handle: Callable[[], Handle]) -> None:
        self._open_handle = open_handle
        self._opened: tuple[int, Any] = (0, None)

    def __getstate__(self) -> dict[str, Any]:
        return {"_open_handle": self._open_handle, "_opened": (0, None)}

    def get(self) -> Handle:
        """Return the handle of this process."""
        if self._opened[0] != os.getpid():
            self._opened = os.getpid(), self._open_handle()
        handle: Handle = self._opened[1]
        return handle
