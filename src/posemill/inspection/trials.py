"""Which libraries work on this machine: each is tried in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from posemill.estimators.runtimes import PACKAGES
from posemill.machine.processes import python_command
from posemill.machine.trials import Outcome, kept_outcomes, run_child
from posemill.weights.catalogue import get_pinned
from posemill.weights.pull import state_of

_NETWORK = "pose_detection"
_PACKAGES = {"opencv": "cv2", **PACKAGES}
_LIMIT_SECONDS = 60.0


def try_libraries() -> dict[str, Outcome]:
    """Return library -> what came of trying it, for those that are installed.

    A runtime runs a network where its model is in the cache; else it is only loaded.
    """
    network = _NETWORK if state_of(get_pinned(_NETWORK, "model")) == "ready" else ""
    outcomes = {}
    for library, package in _PACKAGES.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        used = network if library != "opencv" else ""
        # Another version is another file.
        facts = [spec.origin, Path(spec.origin).stat().st_mtime_ns, used]
        outcomes[library] = kept_outcomes(library, facts, partial(_try, library, used))[0]
    return outcomes


def _try(library: str, network: str) -> list[Outcome]:
    arguments = [library, network] if network else [library]
    command = python_command("posemill.estimators.trial", *arguments)
    outcome, text = run_child(command, timeout_seconds=_LIMIT_SECONDS)
    if outcome.works and text:
        outcome = replace(outcome, seconds={network or "a picture": float(text)})
    return [outcome]
