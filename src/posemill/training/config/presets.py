"""Named bundles of speed settings; none touches the learning rate or the epochs.

`high-performance`, `memory-limited` and `extreme` have the numbers that people know them by:
clips of a pass (`ims_per_gpu`), passes of a step (`gradient_accumulation_steps`), loader processes,
mixed precision. A batch of several passes is `batch_size`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posemill.plugins import not_among

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "high-performance": {
        "micro_batch": 64,
        "batch_size": 64,
        "prefetch_factor": 2,
        "pin_memory": True,
        "persistent_workers": True,
        "precision": "mixed",
        "activation_checkpointing": False,
        "cache": "ram",
        "eval_every": 5,
        "save_every": 5,
    },
    "balanced": {
        "micro_batch": 32,
        "batch_size": 64,
        "prefetch_factor": 2,
        "pin_memory": True,
        "persistent_workers": True,
        "precision": "auto",
        "activation_checkpointing": False,
        "cache": "mmap",
        "eval_every": 2,
        "save_every": 2,
    },
    "memory-limited": {
        "micro_batch": 32,
        "batch_size": 64,
        "prefetch_factor": 2,
        "pin_memory": True,
        "persistent_workers": True,
        "precision": "mixed",
        "activation_checkpointing": True,
        "cache": "mmap",
        "eval_every": 5,
        "save_every": 5,
    },
    "extreme": {
        "micro_batch": 128,
        "batch_size": 128,
        "prefetch_factor": 4,
        "pin_memory": True,
        "persistent_workers": True,
        "precision": "mixed",
        "activation_checkpointing": False,
        "cache": "ram",
        "eval_every": 10,
        "save_every": 10,
    },
}
# Of video, where a clip of a pass takes more: 8 frames of 224 pixels.
_OF_VIDEO: Mapping[str, Mapping[str, Any]] = {
    "high-performance": {"micro_batch": 32, "batch_size": 32, "model": "tsm", "cache": "mmap"},
    "balanced": {"micro_batch": 16, "batch_size": 32, "model": "tsm", "cache": "none"},
    "memory-limited": {"micro_batch": 4, "batch_size": 32, "model": "tsm", "cache": "none"},
    "extreme": {"micro_batch": 64, "batch_size": 64, "model": "tsm", "cache": "mmap"},
}
# Compiled on a GPU only: on CPUs it was slower more often than not, so there it is asked for by
# name (`--compile`).
COMPILES_ON_GPU = frozenset({"high-performance", "extreme"})
MOST_WORKERS = {"high-performance": 8, "balanced": 4, "memory-limited": 8, "extreme": 16}
# Memory for a clip of a pass: the hungriest of our models, stgcn, took 47 MB for 150 frames of 143
# points, forwards and backwards on a CPU (tcn_bilstm 9, transformer 13).
_CLIP_BYTES = 1 << 26
# Of the fields that presets set, the default is this one's.
USUAL = PRESETS["balanced"]


def preset_values(name: str, *, kind: str = "keypoints") -> Mapping[str, Any]:
    """Return the settings of a preset; an unknown name is a `ConfigError`.

    Args:
        name: Of the preset.
        kind: Of the data; of others than `video` and `two_streams` the same as of keypoints.
    """
    if name not in PRESETS:
        raise not_among("preset", name, PRESETS)
    if kind == "video":
        return {**PRESETS[name], **_OF_VIDEO[name]}
    if kind == "two_streams":
        return {**PRESETS[name], **_OF_VIDEO[name], "model": "two_streams"}
    return PRESETS[name]


def loader_workers(preset: str, *, cores: int, ranks: int) -> int:
    """Return the loader processes of each rank: what the preset wants, within the rank's cores.

    A rank keeps one core for itself (`extreme` does not when it is alone); a rank that has one
    core only loads in a thread instead.
    """
    own = max(1, cores // max(1, ranks))
    spare = own if preset == "extreme" and ranks == 1 else own - 1
    return max(0, min(MOST_WORKERS[preset], spare))


def fitting_micro_batch(wanted: int, *, memory_bytes: int) -> int:
    """Return the largest half, quarter … of `wanted` clips that the memory can bear, at least 4."""
    while wanted > 4 and wanted * _CLIP_BYTES > memory_bytes:
        wanted //= 2
    return wanted
