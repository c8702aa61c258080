"""Pictures, movies and files of clips, made in a process of its own.

Files of strangers are decoded there: a decoder that crashes, hangs or grows takes no page down.
Functions whose names begin with `make_` run in that process.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from posemill.errors import PosemillError, RunError
from posemill.machine.processes import die_with_parent, environment, thread_variables
from posemill.web.answers import READ_ERRORS, reason_of
from posemill.web.library import ClipAddress, Entry

_MOST_SECONDS = {"make_frames": 20.0, "make_file": 300.0, "make_place": 60.0}
_IDLE_SECONDS = 120.0
_CLOSE_SECONDS = 5.0
_CLOSED = "the server is stopping"
MOST_FILE_FRAMES = 20_000
FILE_KINDS = {"mp4": "mp4", "pose": "pose", "npz": "npz"}  # ending -> format


class Media:
    """The process, started when it is first needed and ended when nobody asks any more."""

    def __init__(self) -> None:
        self._asked = threading.Condition()
        self._thread: threading.Thread | None = None
        self._child: _Child | None = None
        self._pending: list[_Asked] = []
        self._is_closed = False

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what a function of this module returns there.

        Raises:
            RunError: It failed, took too long, or the process died.
        """
        reply = _Reply()
        with self._asked:
            if self._is_closed:
                raise RunError(_CLOSED)
            if len(self._pending) >= 64:
                raise RunError("too many pictures are asked for at once; wait a moment")
            self._pending.append((name, arguments, reply))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, daemon=True, name="media")
                self._thread.start()
            self._asked.notify()
        return reply.wait()

    def close(self) -> None:
        """End the process; who waits for it is told so."""
        with self._asked:
            self._is_closed = True
            if self._child is not None:
                self._child[0].kill()
            self._asked.notify()
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        """Serve what is asked, one after the other: in one thread, as a child ends with its."""
        try:
            while (asked := self._next()) is not None:
                name, arguments, reply = asked
                try:
                    pipe = self._pipe()
                    pipe.send((name, arguments))
                    if not pipe.poll(_MOST_SECONDS[name]):
                        raise RunError(
                            "it took longer than {most_seconds:.0f} s",
                            most_seconds=_MOST_SECONDS[name],
                        )
                    is_well, value = pipe.recv()
                    reply.set(value if is_well else None, None if is_well else RunError(value))
                except (EOFError, OSError):
                    self._end()
                    reply.set(None, RunError("the process that reads files died of this one"))
                except RunError as error:
                    self._end()
                    reply.set(None, error)
        finally:
            self._end()

    def _next(self) -> _Asked | None:
        """Return what to do next; None where nobody asks any more."""
        with self._asked:
            while True:
                if self._is_closed:
                    for _, _, reply in self._pending:
                        reply.set(None, RunError(_CLOSED))
                    self._pending.clear()
                    return None
                if self._pending:
                    asked = self._pending.pop(0)
                    if not asked[2].is_left:
                        return asked
                elif not self._asked.wait(_IDLE_SECONDS):
                    self._thread = None
                    return None

    def _pipe(self) -> Connection:
        """Return the pipe to the process, started if need be."""
        with self._asked:
            if self._is_closed:
                raise RunError(_CLOSED)
            try:
                self._child = self._child or _start()
            except (OSError, RuntimeError) as error:
                raise RunError(
                    "the process that reads files did not start: {error}", error=error
                ) from error
            return self._child[1]

    def _end(self) -> None:
        with self._asked:
            child, self._child = self._child, None
        if child is not None:
            child[0].kill()
            child[0].join()
            child[1].close()


class _Reply:
    """An answer that is waited for."""

    def __init__(self) -> None:
        self._event, self._value, self._error = threading.Event(), None, None
        self.is_left = False

    def set(self, value: Any, error: Any) -> None:
        self._value, self._error = value, error
        self._event.set()

    def wait(self) -> Any:
        if not self._event.wait(400):
            self.is_left = True
            raise RunError("nobody answered in time; try again")
        if self._error is not None:
            raise self._error
        return self._value


_Asked = tuple[str, tuple[Any, ...], _Reply]
_Child = tuple[Any, Connection]  # a process, and our end of the pipe to it


def _start() -> _Child:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    with environment(thread_variables(1)):
        process.start()
    theirs.close()
    return process, ours


def _serve(pipe: Connection) -> None:
    die_with_parent()
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        function: Callable[..., Any] = globals()[name]
        try:
            pipe.send((True, function(*arguments)))
        except READ_ERRORS as error:
            pipe.send((False, reason_of(error)))
        except MemoryError:
            pipe.send((False, "not enough memory"))


@lru_cache(maxsize=4)
def _originals(folder: Path, mark: int) -> Any:
    from dataclasses import asdict

    from posemill.inspection.drawing.originals import Originals
    from posemill.runs.manifest import MANIFEST_NAME, Manifest

    facts = asdict(Manifest.read(folder)) if (folder / MANIFEST_NAME).is_file() else {}
    return Originals.of(facts, follows_links=False)


def _originals_of(entry: Entry) -> Any:
    # After a while it is looked for anew: a source may grow.
    return _originals(entry.folder, int(time.monotonic() // 60))


def make_frames(address: ClipAddress, start: int, count: int, side: int) -> list[bytes | None]:
    """Return frames as JPEG, None where the original is gone; at most `side` pixels long."""
    from posemill.inspection.drawing.showing import jpeg_bytes
    from posemill.web.clip_data import read_window

    clip = read_window(address, start, count)
    frames = _originals_of(address.entry).frames(clip, range(len(clip)))
    return [None if frame is None else jpeg_bytes(frame, longest=side) for _, frame in frames]


def make_place(address: ClipAddress) -> str:
    """Return where the video of a clip is.

    Raises:
        PosemillError: It is not there, or not below what the manifest names.
    """
    path: Path = _originals_of(address.entry).video_path(address.split, address.clip_id)
    return str(path)


def make_file(address: ClipAddress, kind: str, target: str) -> int:
    """Write a clip as a movie or in a format of keypoints; return how many frames it has."""
    from posemill.formats import get_format
    from posemill.formats.shared.contract import Recipe
    from posemill.inspection.drawing.frame_picture import draw
    from posemill.inspection.drawing.movies import write_movie
    from posemill.web.clip_data import play_rate, read_whole

    if kind not in FILE_KINDS:
        raise PosemillError(
            "expected one of {file_kinds}, got {kind!r}",
            file_kinds=", ".join(FILE_KINDS),
            kind=kind[:40],
        )
    clip = read_whole(address, MOST_FILE_FRAMES)
    if kind != "mp4":
        recipe = Recipe(
            layout=clip.skeleton_name,
            normalize=clip.normalized,
            interpolate=clip.interpolated,
            smooth=clip.smoothed,
        )
        get_format(FILE_KINDS[kind]).write(iter([clip]), Path(target), recipe=recipe)
        return len(clip)

    def pictures() -> Iterator[Any]:
        for row, frame in _originals_of(address.entry).frames(clip, range(len(clip))):
            yield draw(frame, clip, row)

    return write_movie(Path(target), pictures(), kind="mp4", fps=play_rate(clip.fps))
