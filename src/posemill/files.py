"""Atomic writes, checksums and the cache folder."""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import stat
import struct
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from posemill.errors import ConfigError, ContentError, FormatError, RunError
from posemill.messages import Message
from posemill.terminal import printable, warn_once

OUTPUT_MARK = ".posemill-output"  # in a folder that is all ours
_FILES_MARK = ".posemill-files"  # in one of the user's: names and sizes of the files that are ours
FolderKind = Literal["extraction", "sweep", "training", "prepared", "output"]
# Files that only our folders have: a word in them, and what such a folder is.
_OWN_FILES: dict[str, tuple[bytes, FolderKind]] = {
    "manifest.json": (b'"posemill_run"', "extraction"),
    "sweep.json": (b"posemill-sweep", "sweep"),
    "run.json": (b"posemill-training", "training"),
    "posemill.jsonl": (b'"posemill"', "output"),
    OUTPUT_MARK: (b"", "output"),
}
OUTPUT_NAMES = frozenset(_OWN_FILES)
# What tells one whose own file is damaged, or not yet written.
_TOGETHER: dict[frozenset[str], FolderKind] = {
    frozenset(["manifest.json", "ledger.sqlite"]): "extraction",
    frozenset(["sweep.json", "log.txt"]): "sweep",
    frozenset(["config.toml", "log.txt"]): "training",
    frozenset([".lock", "log.txt"]): "training",
}
PREPARED_ENDING = "_keypoints.npz"
# What broken bytes make the standard library and numpy raise.
CORRUPT: tuple[type[Exception], ...] = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, EOFError,
    struct.error, zlib.error, RecursionError, MemoryError, OSError,
)  # fmt: skip
_MAX_BYTES = 100  # per folder or file name; file systems take 255
_UNFIT = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` that becomes `target` when the block ends well.

    The data is flushed to the disk before the rename, so after a crash `target` is the old file,
    the new one, or absent: never a part of one. On an error the temporary file is removed.
    """
    temporary = target.with_name(f"{temporary_stem(target)}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of an ordinary file of a stranger; OSError for a link or a pipe."""
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | safe, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    return descriptor


def readable(name: str) -> str:
    r"""Return a name as text any file can hold: bytes that are no UTF-8 become `\xff`."""
    if name.isascii():  # nearly all: an eighth of the time
        return name
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a character, as only JSON can write it
        return name.encode("utf-8", "backslashreplace").decode()


def near_path(path: Path) -> str:
    """Return `; did you mean 'videos'?` for a path that is not there; empty if nothing is near."""
    import difflib

    names: list[str] = []
    with suppress(OSError), os.scandir(path.parent) as entries:
        names = [each.name for each in itertools.islice(entries, 1000)]
    near = [path.parent / name for name in difflib.get_close_matches(path.name, names, 1, 0.7)]
    return Message("; did you mean {near!r}?", near=printable(near[0])) if near else ""


def refuse_pipe(path: Path) -> None:
    """Raise FormatError where a path is neither a file nor a folder: opening it may never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FormatError(
            "{path}: not a file: it is a pipe, a socket or a device; save what comes out of it in "
            "a file",
            path=path,
        )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Say which file it is where a `ContentError` comes out of the block."""
    try:
        yield
    except ContentError as error:
        raise FormatError("{path}: {error}", path=path, error=error) from error


@contextmanager
def reading(path: Path, kind: str, *damage: type[Exception]) -> Iterator[None]:
    """Turn what broken bytes of a `kind` of file raise, `CORRUPT` or `damage`, into FormatError."""
    if not path.exists():
        raise FormatError("{path}: no such file or folder", path=path)
    refuse_pipe(path)
    try:
        with naming(path):
            yield
    except (*CORRUPT, *damage) as error:
        details = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        template = "{path}: not a readable {kind} file ({details})"
        raise FormatError(template, path=path, kind=kind, details=details[:300]) from error


def check_own_parts(folder: Path, files: Iterable[str], folders: Iterable[str]) -> None:
    """Raise where a part of a run is not an ordinary file or folder.

    A link would be read or written outside of the run, and a pipe would be waited on for ever.
    """
    for name, is_folder in (dict.fromkeys(files, False) | dict.fromkeys(folders, True)).items():
        path = folder / name
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue  # not there, or an error that opening it tells better
        if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
            what = "a link" if stat.S_ISLNK(mode) else "something else"
            raise RunError(
                "{path} is {what}, expected {expected}; a run keeps all its parts in its own "
                "folder, so nothing of it is read or changed: put the part itself there, or "
                "choose another folder",
                path=path,
                what=what,
                expected="a folder" if is_folder else "a file",
            )


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text of others; ValueError where it is broken or too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def mark_output(folder: Path) -> None:
    """Mark a folder as written by posemill: whoever looks for data leaves it out."""
    (folder / OUTPUT_MARK).touch()


def mark_file(path: Path) -> None:
    """Note that posemill wrote a file, unless it lies in a folder that is marked."""
    if any((folder / OUTPUT_MARK).exists() for folder in path.absolute().parents):
        return
    mark, flags = path.with_name(_FILES_MARK), os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        with os.fdopen(open_plain(mark, flags), "a") as handle:
            handle.write(json.dumps([path.name, path.stat().st_size]) + "\n")
    except OSError as error:  # another user's, who drew into this folder first
        template = "{path} cannot be written: {reason}; extract takes what is drawn here for data"
        warn_once(Message(template, path=mark, reason=error.strerror))


def marked_files(folder: str) -> set[str]:
    """Return the names of the files in a folder that posemill wrote, and nobody has replaced."""
    names = set()
    with suppress(*CORRUPT), os.fdopen(open_plain(Path(folder, _FILES_MARK))) as lines:
        for name, size in map(json.loads, lines.read(1 << 24).splitlines()):  # may be a stranger's
            path = Path(folder, name)
            names |= {name} if path.exists() and path.stat().st_size == size else set()
    return names


def folder_kind(folder: Path, names: Collection[str] | None = None) -> FolderKind | None:
    """Return what posemill made a folder; None for one of somebody else, for a file and nothing."""

    def read_head(name: str) -> bytes:
        with suppress(OSError), os.fdopen(open_plain(folder / name), "rb") as handle:
            return handle.read(1 << 16)
        return b""

    try:
        names = os.listdir(folder) if names is None else names  # noqa: PTH208
    except OSError:
        return None
    return kind_by_names(names, read_head)


def kind_by_names(names: Collection[str], read_head: Callable[[str], bytes]) -> FolderKind | None:
    """Return `folder_kind` of a folder anywhere, by its names and the first bytes of its files."""
    for name, (word, kind) in _OWN_FILES.items():
        if name in names and word in read_head(name):
            return kind
    for together, kind in _TOGETHER.items():
        if together <= set(names):
            return kind
    return "prepared" if any(name.endswith(PREPARED_ENDING) for name in names) else None


def safe_parts(name: str) -> list[str]:
    """Return a name that came from data as names of folders, of which none leads anywhere else.

    `..`, absolute paths, drive letters and characters some file system refuses become harmless; a
    name that had to be changed gets a hash of the original, so two names never share a file.
    """
    pieces = [piece for piece in re.split(r"[/\\]", name) if piece not in ("", ".", "..")]
    safe = [_safe_piece(piece) for piece in pieces] or ["unnamed"]
    if "/".join(safe) != name:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        safe[-1] += f"~{digest}"
    return safe


def _safe_piece(piece: str) -> str:
    cleaned = _UNFIT.sub("_", piece.encode("utf-8", "replace").decode("utf-8"))
    if _RESERVED.fullmatch(cleaned):
        cleaned = f"_{cleaned}"
    # Windows drops dots and blanks at the end; cut in bytes, not inside of a character.
    return cleaned.encode()[:_MAX_BYTES].decode("utf-8", "ignore").rstrip(". ") or "_"


def sync_files(paths: Sequence[Path]) -> None:
    """Make files of one disk that were just written durable, and that they are there.

    Where the system can, their whole disk is flushed at once: for many small files that takes a
    hundredth of the time.
    """
    if paths and sys.platform == "linux" and (flush := getattr(ctypes.CDLL(None), "syncfs", None)):
        descriptor = os.open(paths[0].parent, os.O_RDONLY)
        try:
            if flush(descriptor) == 0:
                return
        finally:
            os.close(descriptor)
    for path in paths:
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
    for folder in {path.parent for path in paths}:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable. Windows has no such call and does not need it."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file's content, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def cache_folder() -> Path:
    """Return posemill's cache folder: `POSEMILL_CACHE`, or the platform's usual place. Not made."""
    if chosen := os.environ.get("POSEMILL_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "posemill"


@contextmanager
def new_folders(folder: Path) -> Iterator[None]:
    """Make a folder and those above it; if the block fails, remove those we made that are empty."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        # From below upwards; `rmdir` refuses what is not empty.
        with suppress(OSError):
            for each in made:
                each.rmdir()
        raise


def not_ours(folder: Path, marker: str) -> ConfigError:
    """Return the error for a folder that is not replaced, as it has no file of ours."""
    return ConfigError(
        "{path} is there already and was not written by posemill (it has no {marker}); choose "
        "another name or remove it",
        path=folder,
        marker=marker,
    )


@contextmanager
def atomic_folder(target: Path, *, marker: str) -> Iterator[Path]:
    """Yield a new folder beside `target` that becomes `target` when the block ends well.

    An old folder is replaced only if it is empty or holds a file named `marker`, which we write
    into ours: nothing of anyone else is deleted. After a kill, `target` is the old folder, the new
    one, or absent.
    """
    is_ours = (target / marker).is_file() or (target.is_dir() and not any(target.iterdir()))
    if target.exists() and not is_ours:
        raise not_ours(target, marker)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    stem = temporary_stem(target)
    temporary, old = target.with_name(f"{stem}.tmp"), target.with_name(f"{stem}.old")
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def temporary_stem(target: Path) -> str:
    """Return a name beside `target` that tells which process of which machine writes there."""
    return f".{target.name}.{os.getpid()}-{_machine_mark()}{uuid.uuid4().hex[:8]}"


def _machine_mark() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def remove_leftovers(target: Path, *, older_than_seconds: float = 600) -> None:
    """Delete the temporary files and folders that killed writers of `target` left beside it.

    Those of other machines, which may still write, when nobody has touched them for a while. An
    old version of `target` that was put aside stays where no new one took its place.
    """
    import psutil

    stem = f".{target.name}."
    for path in target.parent.glob(f"{glob.escape(stem)}*-*.*"):
        pid, _, rest = path.name.removeprefix(stem).partition("-")
        mark, _, ending = rest.rpartition(".")
        is_kind = ending == "tmp" or (ending == "old" and target.exists())
        if not is_kind or not pid.isdecimal() or psutil.pid_exists(int(pid)):
            continue
        is_of_here = len(mark) == 16 and mark.startswith(_machine_mark())
        if not is_of_here and time.time() - path.lstat().st_mtime < older_than_seconds:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
