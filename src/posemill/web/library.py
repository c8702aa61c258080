"""Which runs are below some folders: found again and again, so that new ones show by themselves."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from posemill.errors import RunError
from posemill.files import PREPARED_ENDING, FolderKind, folder_kind

_MOST_ENTRIES = 1_000_000  # files and folders looked at; a dataset may lie below the folders too
_MOST_DEPTH = 12
_MOST_RUNS = 5000
_REST = 20.0  # so many times as long as a look took, nobody looks again
_LEAST_REST_SECONDS = 1.0
_FIRST_SECONDS = 0.5  # that a question waits for the first look
_CLOSE_SECONDS = 5.0
_LEFT_OUT = frozenset(["node_modules", "__pycache__", "site-packages", "shards", "checkpoints"])


@dataclass(frozen=True)
class Entry:
    """A run, prepared data, a training or a sweep.

    Args:
        key: What addresses name it by; no path ever comes from an address.
        name: Its path below the folder that was asked for.
    """

    key: str
    kind: FolderKind
    name: str
    folder: Path


@dataclass(frozen=True)
class ClipAddress:
    """A clip of a run."""

    entry: Entry
    split: str
    clip_id: str


def prepared_files(folder: Path) -> dict[str, Path]:
    """Return the files of prepared data, by split."""
    paths = sorted(folder.glob(f"*{PREPARED_ENDING}"))
    return {path.name.removesuffix(PREPARED_ENDING): path for path in paths}


class Library:
    """The runs below some folders. Links are not followed, but for the folders themselves."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        self.note = ""  # why not all was looked at
        self._entries: dict[str, Entry] = {}
        self.has_looked = threading.Event()  # through all of them, once
        self._wanted, self._is_closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True, name="library")
        self._left = 0  # files and folders that this look may still look at

    def start(self) -> None:
        """Begin to look, in a thread."""
        self._wanted.set()
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._is_closed.set()
        self._left = 0
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def entries(self) -> list[Entry]:
        """Return what is known, by name; somebody looks anew soon after."""
        self.has_looked.wait(_FIRST_SECONDS)  # most are found by the time the first page asks
        self._wanted.set()
        return sorted(self._entries.values(), key=lambda entry: entry.name)

    def get(self, key: str, *kinds: FolderKind) -> Entry:
        """Return the run of a key; RunError where there is none, or none of these kinds."""
        if key not in self._entries and not self.has_looked.wait(_FIRST_SECONDS):
            raise RunError("the folders are still being looked through; try again in a moment")
        entry = self._entries.get(key)
        if entry is None or (kinds and entry.kind not in kinds):
            raise RunError("there is no such run below the folders that are served")
        return entry

    def look(self) -> None:
        """Look through all folders once."""
        entries: dict[str, Entry] = {}
        self.note = ""
        self._left = _MOST_ENTRIES
        for root in self.folders:
            for kind, folder in self._walk(root):
                relative = folder.relative_to(root).as_posix()
                name = root.name if relative == "." else relative
                key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
                entries[key] = self._entries[key] = Entry(key, kind, name or str(folder), folder)
                if len(entries) >= _MOST_RUNS:
                    self._left = 0
        if self._left <= 0:
            self.note = "too many files below the folders: name the folders of the runs themselves"
        self._entries = entries
        self.has_looked.set()

    def _look_again(self) -> None:
        while self._wanted.wait() and not self._is_closed.is_set():
            self._wanted.clear()
            started = time.monotonic()
            self.look()
            took_seconds = time.monotonic() - started
            self._is_closed.wait(max(_LEAST_REST_SECONDS, _REST * took_seconds))

    def _walk(self, root: Path) -> Iterator[tuple[FolderKind, Path]]:
        waiting = [(str(root), 0)]
        while waiting and self._left > 0:
            folder, depth = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = list(itertools.islice(entries, self._left))
                folders = [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]
                names = {entry.name for entry in listed if entry.is_file(follow_symlinks=False)}
            except OSError:
                continue  # gone by now, or not ours to read
            self._left -= len(listed)
            kind = folder_kind(Path(folder), names)
            if kind == "training" and "run" in folders and "run.json" not in names:
                kind = None  # what a sweep made for one of its trainings, which is in `run`
            if kind is not None and kind != "output":
                yield kind, Path(folder)
            if kind not in ("extraction", "training") and depth < _MOST_DEPTH:
                inside = [name for name in folders if name[0] != "." and name not in _LEFT_OUT]
                above = folder.rstrip("/")
                waiting += [(f"{above}/{name}", depth + 1) for name in sorted(inside)[::-1]]
