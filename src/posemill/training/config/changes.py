"""What is asked of a training that goes on, and was not when it began."""

from __future__ import annotations

from pathlib import Path

from posemill.errors import ConfigError
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import FIELDS, TrainConfig

_GROUPS = ("data", "model", "augmentation", "video", "optimisation")
# For how long is learned, and how the data is kept and decoded.
_FREE = ("epochs", "max_steps", "patience", "cache", "cache_folder", "video_decoder")


def decides_learning(name: str) -> bool:
    """Return whether a setting, by flat name, decides what is learned; others say how fast."""
    return FIELDS[name].group in _GROUPS


def describe_changes(began_with: Path, config: TrainConfig) -> list[str]:
    """Return a sentence for each setting of learning that is another than at the beginning.

    Args:
        began_with: `config.toml` of the run; one that cannot be read is of an older version.
        config: As the training goes on.
    """
    try:
        before = read_config(began_with)
    except (ConfigError, OSError):
        return []
    now = config.to_dict()
    return [
        f"it began with {name} = {before[name]!r}, and goes on with {now[name]!r}"
        for name in FIELDS
        if decides_learning(name) and name not in _FREE and name in before
        if _plain(before[name]) != _plain(now[name])
    ]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
