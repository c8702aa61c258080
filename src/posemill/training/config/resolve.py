"""From files, flags and presets to one `TrainConfig`, with where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from posemill import provenance
from posemill.machine.limits import count_cores, memory_limit
from posemill.terminal import counted
from posemill.training.config.presets import MOST_WORKERS, fitting_micro_batch, loader_workers
from posemill.training.config.train_config import TrainConfig

Resolved: TypeAlias = provenance.Resolved[TrainConfig]


def resolve_config(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    cores: int | None = None,
    memory_bytes: int | None = None,
) -> Resolved:
    """Return the configuration: defaults, then the preset, then the file, then the flags.

    Args:
        file: TOML with fields of `TrainConfig` at the top level or under the names of its groups.
        flags: Values given by the caller; they win.
        cores: For tests; the machine's by default.
        memory_bytes: Likewise.
    """
    resolved = provenance.resolve(TrainConfig, file, flags)
    if resolved.config.workers < 0:
        available = cores or count_cores()
        workers = _workers(resolved.config, available)
        preset = resolved.config.preset
        why = f"{counted(available, 'cores')}, preset {preset}"
        if workers < MOST_WORKERS[preset]:
            why += f" wants {MOST_WORKERS[preset]}"
        resolved = resolved.with_machine({"workers": workers}, {"workers": why})
    return _within_memory(resolved, memory_bytes or memory_limit().amount)


def _within_memory(resolved: Resolved, memory_bytes: int) -> Resolved:
    """Return the settings with a smaller `micro_batch` where the preset's is too much for here."""
    if resolved.sources["micro_batch"] != "preset":
        return resolved
    wanted = resolved.config.micro_batch
    found = fitting_micro_batch(wanted, memory_bytes=memory_bytes)
    if found == wanted:
        return resolved
    why = f"{memory_bytes >> 20} MB of memory, preset {resolved.config.preset} wants {wanted}"
    return resolved.with_machine({"micro_batch": found}, {"micro_batch": why})


def _workers(config: TrainConfig, cores: int) -> int:
    ranks = (config.processes or cores) if config.parallel == "multi_process" else 1
    return loader_workers(config.preset, cores=cores, ranks=ranks)


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by flat name."""
    return provenance.read_toml(TrainConfig, path)
