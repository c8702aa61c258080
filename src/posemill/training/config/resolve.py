"""From files, flags and presets to one `TrainConfig`, with where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from posemill import provenance
from posemill.errors import ConfigError
from posemill.machine.limits import count_cores, memory_limit
from posemill.messages import Message, Option
from posemill.training.config.kinds import AUTO, kind_of
from posemill.training.config.run_settings import MOST_WORKERS, fitting_micro_batch, loader_workers
from posemill.training.config.train_config import FIELDS, TrainConfig

Resolved: TypeAlias = provenance.Resolved[TrainConfig]
_LOOKED_AT = "default: by what the path holds"
_LEARNING = ("data", "model", "augmentation", "video", "optimisation")
# For how long is learned, and how the data is kept and decoded.
_FREE = ("epochs", "max_steps", "patience", "cache", "cache_folder", "video_decoder")


def resolve_config(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    cores: int | None = None,
    memory_bytes: int | None = None,
) -> Resolved:
    """Return the configuration: defaults, then the preset, then the file, then the flags.

    `file` is TOML with fields of `TrainConfig`, flat or in groups; `cores` and `memory_bytes` are
    the machine's by default.
    """
    given = TrainConfig.flatten(flags or {})
    resolved = provenance.resolve(TrainConfig, file, given)
    if (known := with_data_kind(resolved.config)) is not resolved.config:
        given["data_kind"] = known.data.kind  # whose values the preset then has
        resolved = provenance.resolve(TrainConfig, file, given)
        resolved = Resolved(resolved.config, {**resolved.sources, "data_kind": _LOOKED_AT})
    config, preset = resolved.config, resolved.config.preset
    values, reasons = {}, {}
    if config.workers < 0:
        available, most = cores or count_cores(), MOST_WORKERS[preset]
        ranks = (config.processes or available) if config.parallel == "multi_process" else 1
        values["workers"] = loader_workers(preset, cores=available, ranks=ranks)
        template = "{num_cores:core|cores}, preset {preset}"
        if values["workers"] < most:
            template = "{num_cores:core|cores}, preset {preset} wants {num_workers}"
        reasons["workers"] = Message(template, num_cores=available, preset=preset, num_workers=most)
    memory = memory_bytes or memory_limit().amount
    fitting, wanted = (
        fitting_micro_batch(config.micro_batch, memory_bytes=memory),
        config.micro_batch,
    )
    if resolved.sources["micro_batch"] == "preset" and fitting != wanted:
        values["micro_batch"] = fitting
        template = "{num_mb} MB of memory, preset {preset} wants {wanted}"
        reasons["micro_batch"] = Message(
            template, num_mb=memory >> 20, preset=preset, wanted=wanted
        )
    return resolved.with_machine(values, reasons)


def with_data_kind(config: TrainConfig) -> TrainConfig:
    """Return a configuration that knows what its data are: the path is looked at if need be."""
    if config.data.kind != AUTO or not config.data.path:
        return config
    return TrainConfig(**{**config.asked, "data_kind": kind_of(config.data.path)})


def resolve_made(config: TrainConfig) -> Resolved:
    """Return the account of a configuration that was made in Python."""
    known = with_data_kind(config)
    looked_at = {} if known is config else {"data_kind": _LOOKED_AT}
    return Resolved(known, {**Resolved.of(known).sources, **looked_at})


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by flat name."""
    return provenance.read_toml(TrainConfig, path)


def decides_learning(name: str) -> bool:
    """Return whether a setting, by flat name, decides what is learned; others say how fast."""
    return FIELDS[name].group in _LEARNING and name != "data_kind"  # which the data decide


def describe_changes(began_with: Path, config: TrainConfig) -> list[str]:
    """Return a sentence for each setting of learning unlike `began_with`, a `config.toml`."""
    now = config.to_dict()
    try:
        before = read_config(began_with)
        values = {name: FIELDS[name].check(value) for name, value in before.items()}
    except (ConfigError, OSError):
        return []
    return [
        Message(
            "it began with {before}, and goes on with {now!r}",
            before=Option(name, value),
            now=now[name],
        )
        for name, value in values.items()
        if decides_learning(name) and name not in _FREE and value != now[name]
    ]
