"""`multigrid_options`: what a training may change about its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posemill.errors import ConfigError

# Name in the options -> (argument of `Multigrid`, its value in a training). The learning
# rate is multiplied by 4 at most, as trainings of a few minutes were tried elsewhere.
_KNOWN: Mapping[str, tuple[str, float | bool]] = {
    "epoch_factor": ("epoch_factor", 1.5),
    "most_lr_factor": ("most_lr_factor", 4.0),
    "short_cycle": ("has_short_cycle", True),
}


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Multigrid` that options ask for; a wrong one is a `ConfigError`."""
    found: dict[str, Any] = dict(_KNOWN.values())
    for name, value in options.items():
        argument, usual = _KNOWN.get(name, ("", None))
        is_switch = isinstance(value, bool)
        if (
            not argument
            or is_switch != isinstance(usual, bool)
            or not isinstance(value, int | float)
        ):
            raise ConfigError(
                "multigrid_options: expected epoch_factor and most_lr_factor (numbers) and "
                f"short_cycle (true or false), got {name} = {value!r}"
            )
        found[argument] = value
    return found
