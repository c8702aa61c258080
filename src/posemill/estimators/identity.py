"""The identity of an engine: what decides its keypoints. A run goes on only with the same one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from posemill.estimators import engine_info, open_estimator
from posemill.estimators.runtimes import choose_runtime


def build_identity(
    engine: str,
    options: Mapping[str, Any],
    *,
    device: str = "cpu",
    runtime: str = "",
    hashes: Mapping[str, str] | None = None,
    converter: int | None = None,
) -> dict[str, str]:
    """Return the identity of an engine; every engine of ours has it from here.

    Args:
        engine: Its name.
        options: All that it was opened with, as they were settled, and what else decides its
            result. Its runtime is told apart.
        device: Only the kind counts: GPUs of a kind compute the same.
        runtime: What runs its networks, and the version of that.
        hashes: sha256 of each of its files.
        converter: The version of what made its networks of published files; None where they are
            run as they are.
    """
    settled = {name: str(value) for name, value in options.items() if name != "runtime"}
    identity = {"engine": engine, **settled, "device": _kind_of(device)}
    if runtime:
        identity["runtime"] = runtime
    if converter is not None:
        identity["converter"] = str(converter)
    return identity | {f"sha256 {name}": digest for name, digest in (hashes or {}).items()}


def identity_on(
    device: str, engine: str, options: Mapping[str, Any], *, is_here: bool = True
) -> dict[str, str]:
    """Return the identity that an engine has on a device; the engine is opened to ask it.

    Args:
        device: That of the workers.
        engine: Its name; it may be that of another package.
        options: Those that were asked for.
        is_here: Whether this machine has the device. If not, the engine is opened on the CPU, with
            the runtime that it would have on the device.
    """
    options, opened_on = dict(options), device
    if not is_here:
        info, opened_on = engine_info(engine, options), "cpu"
        info.check_device(engine, device)
        if any(option.name == "runtime" for option in info.options):
            options["runtime"] = choose_runtime(str(options.get("runtime", "auto")), device)
    with closing(open_estimator(engine, device=opened_on, threads=1, **options)) as opened:
        return {**opened.identity(), "device": _kind_of(device)}


def _kind_of(device: str) -> str:
    return device.partition(":")[0]
