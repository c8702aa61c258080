"""What will run where on this machine, and what is missing: the facts behind `posemill doctor`."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from types import MappingProxyType
from typing import Any

import psutil

from posemill import __version__, plugins
from posemill.errors import PosemillError
from posemill.estimators import engine_infos
from posemill.estimators.runtimes import PACKAGES, choose_runtime, has_litert_here
from posemill.estimators.runtimes.devices import (
    list_gpus,
    list_onnx_runtimes,
    list_providers,
    say_how_to_use_gpus,
)
from posemill.estimators.trial import LIBRARIES, try_library
from posemill.files import cache_folder
from posemill.machine.limits import core_limit, free_memory, memory_limit
from posemill.machine.trials import Outcome, processor_name
from posemill.messages import Message
from posemill.weights.catalogue import get_pinned
from posemill.weights.pull import list_files, state_of

_BASE_PACKAGES = ("numpy", "av", "tflite", "pyarrow", "pillow", "psutil", "rich")
_OPENCV_PACKAGES = (
    "opencv-python-headless",
    "opencv-python",
    "opencv-contrib-python-headless",
    "opencv-contrib-python",
)
_ABOUT_CLUSTER = "posemill.executors.ray_cluster:about_cluster"
_LITERT = "ai-edge-litert"
# What to do where a library fails that networks or pictures need.
_REMEDIES = {
    "opencv": Message("install another version of opencv-python-headless"),
    "litert": Message(
        "run the networks on ONNX Runtime: {--engine-option:runtime=onnxruntime}, after pip "
        "install 'posemill[onnx]'"
    ),
    "onnxruntime": Message("run the networks on LiteRT: {--engine-option:runtime=litert}"),
    "openvino": Message("do not ask for {--engine-option:runtime=openvino}"),
    "pyav": Message("install it again: pip install --force-reinstall av"),
    "pyarrow": Message("install it again: pip install --force-reinstall pyarrow"),
}
_NETWORK = "pose_detection"


@dataclass(frozen=True)
class Diagnosis:
    """Everything `posemill doctor` shows.

    Args:
        versions: Package -> version, None where it is not installed.
        devices: What an engine can be asked to run on: `cpu`, `cuda:0` … -> the runtime there.
        gpus: Names, whether or not the runtime can use them.
        extras: Extra -> the packages of it that are missing (empty: ready).
        engines: Engine -> what `pip install` brings that it lacks (empty: ready).
        cluster: What the Ray cluster has that was asked for; None if none was, or none answers.
        tried: Library or number format -> what came of trying it here.
    """

    versions: dict[str, str | None]
    machine: dict[str, Any]
    devices: dict[str, str]
    providers: list[str]
    gpus: list[str]
    cache: dict[str, Any]
    extras: dict[str, list[str]]
    engines: dict[str, str] = field(default_factory=dict)
    cluster: dict[str, Any] | None = None
    tried: dict[str, Outcome] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def diagnose(
    ray_address: str = "", tried: Mapping[str, Outcome] = MappingProxyType({})
) -> Diagnosis:
    """Return what is on this machine. Opens no model and changes nothing.

    `ray_address` names a cluster to look at as well. A library that failed when it was `tried` is
    not loaded here.
    """
    has_failed = "onnxruntime" in tried and not tried["onnxruntime"].works
    providers = list_providers() if list_onnx_runtimes() and not has_failed else []
    gpus = list_gpus()
    usable = gpus if "CUDAExecutionProvider" in providers else []
    cores, memory = core_limit(), memory_limit()
    cluster, problems = None, []
    if ray_address:
        try:
            about = plugins.load("executor", {"ray": _ABOUT_CLUSTER}, "ray", extra="ray")
            cluster = about(ray_address)
        except PosemillError as error:
            problems.append(str(error))
    diagnosis = Diagnosis(
        versions=_versions(),
        machine={
            "platform": platform.platform(),
            "processor": processor_name(),
            "cores": os.cpu_count() or 1,
            "usable_cores": cores.amount,
            "cores_limited_by": cores.reason,
            "memory_bytes": psutil.virtual_memory().total,
            "usable_memory_bytes": memory.amount,
            "memory_limited_by": memory.reason,
            "free_memory_bytes": free_memory(),
        },
        devices={
            device: choose_runtime("auto", device)
            for device in ("cpu", *(f"cuda:{index}" for index in range(len(usable))))
        },
        providers=providers,
        gpus=gpus,
        cache=_cache(),
        extras=_extras(),
        engines={name: info.missing for name, info in engine_infos().items()},
        cluster=cluster,
        tried=dict(tried),
        problems=problems,
    )
    diagnosis.problems.extend(_problems(diagnosis))
    diagnosis.warnings.extend(_warnings(diagnosis))
    return diagnosis


def _versions() -> dict[str, str | None]:
    opencv = [name for name in _OPENCV_PACKAGES if _version_of(name)] or [_OPENCV_PACKAGES[0]]
    # LiteRT is not made for every system, ONNX Runtime is an extra.
    runtimes = [name for name in (_LITERT, *list_onnx_runtimes()) if _version_of(name)]
    versions = {name: _version_of(name) for name in (*_BASE_PACKAGES, *opencv, *runtimes)}
    return {"posemill": __version__, "python": platform.python_version(), **versions}


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    folder = cache_folder()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return {
        "folder": str(folder),
        "writable": nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK),
        "free_bytes": shutil.disk_usage(nearest).free,
        "models": {
            row["name"]: row["state"]
            for row in list_files()
            if row["kind"] == "model" and not row["on_demand"]
        },
    }


def _extras() -> dict[str, list[str]]:
    """Return extra -> missing packages, by what the installed posemill itself declares."""
    try:
        requirements = metadata.requires("posemill") or []
    except metadata.PackageNotFoundError:  # a source folder on the path
        return {}
    missing: dict[str, list[str]] = {}
    for requirement in requirements:  # h5py>=3; extra == "formats"
        extra = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra is None or name is None:
            continue
        absent = missing.setdefault(extra[1], [])
        if name[0] != "posemill" and _version_of(name[0]) is None:
            absent.append(name[0])
    hidden = {"bench", "dev", "docs"}  # for those who work on posemill itself
    # To advise the other ONNX Runtime would be to advise two that overwrite each other.
    runtimes = list_onnx_runtimes()
    if "onnxruntime-gpu" in runtimes:
        hidden |= {"onnx", "all"}
    elif runtimes:
        hidden.add("gpu")
    return {extra: absent for extra, absent in missing.items() if extra not in hidden}


def _problems(diagnosis: Diagnosis) -> Iterator[str]:
    for name, version in diagnosis.versions.items():
        if version is None:
            yield Message("{name} is not installed; run: pip install posemill", name=name)
    if _LITERT not in diagnosis.versions and not list_onnx_runtimes():
        wanted = _LITERT if has_litert_here() else "'posemill[onnx]'"
        yield Message("nothing here runs the networks; run: pip install {wanted}", wanted=wanted)
    needed = [name for name, state in diagnosis.cache["models"].items() if state != "ready"]
    if needed and not diagnosis.cache["writable"]:
        yield Message(
            "the cache folder {folder} is not writable and lacks {needed}; set POSEMILL_CACHE to "
            "a folder you may write to",
            folder=diagnosis.cache["folder"],
            needed=", ".join(needed),
        )
    for name, outcome in diagnosis.tried.items():
        if name in _REMEDIES and not outcome.works:
            yield Message(
                "{library} was tried on this machine and failed: {reason}. Its processor may name "
                "instructions that a virtual machine refuses; {remedy}",
                library=name,
                reason=outcome.reason,
                remedy=_REMEDIES[name],
            )


def _warnings(diagnosis: Diagnosis) -> Iterator[str]:
    versions = {name: diagnosis.versions.get(name) for name in _OPENCV_PACKAGES}
    installed = [name for name, version in versions.items() if version]
    if len(installed) > 1:
        yield Message(
            "{found} are installed together and overwrite each other's files; run: pip uninstall "
            "{packages}, then install one of them again",
            found=" and ".join(installed),
            packages=" ".join(installed),
        )
    yield from _runtime_warnings(diagnosis)
    for name in installed:
        if int(str(versions[name]).partition(".")[0]) >= 5:
            yield Message(
                "{name} {version}: version 5 warps crops differently, about 1 px of noise in the "
                "landmarks; run: pip install '{name}<5'",
                name=name,
                version=versions[name],
            )
    states = diagnosis.cache["models"]
    if damaged := [name for name, state in states.items() if state == "damaged"]:
        yield Message(
            "damaged in the cache: {damaged}; the next use fetches them again, or run: posemill "
            "models pull",
            damaged=", ".join(damaged),
        )
    if num_missing := list(states.values()).count("missing"):
        yield Message(
            "{num_missing} of {num_states} models are not in the cache yet; the first use fetches "
            "them, or run: posemill models pull",
            num_missing=num_missing,
            num_states=len(states),
        )


def _runtime_warnings(diagnosis: Diagnosis) -> Iterator[str]:
    installed = list_onnx_runtimes()
    if _LITERT not in diagnosis.versions and installed:
        remedy = Message("; run: pip install {litert}", litert=_LITERT)
        yield Message(
            "{litert} is not installed: on a CPU the networks run on ONNX Runtime, and landmarks "
            "differ from MediaPipe's by some hundredths of a pixel, more in video mode{remedy}",
            litert=_LITERT,
            remedy=remedy if has_litert_here() else "",
        )
    if diagnosis.gpus and "CUDAExecutionProvider" not in diagnosis.providers:
        template = "{num_gpus} GPU(s) here that cannot be used: {remedy}"
        yield Message(template, num_gpus=len(diagnosis.gpus), remedy=say_how_to_use_gpus(installed))
    elif len(installed) > 1:
        yield say_how_to_use_gpus(installed)


def try_libraries() -> dict[str, Outcome]:
    """Return library -> what came of trying it, for those that are installed.

    A runtime runs a network where its model is in the cache; else it is only loaded.
    """
    network = _NETWORK if state_of(get_pinned(_NETWORK, "model")) == "ready" else ""
    tried = {name: try_library(name, network if name in PACKAGES else "") for name in LIBRARIES}
    return {name: outcome for name, outcome in tried.items() if outcome is not None}
