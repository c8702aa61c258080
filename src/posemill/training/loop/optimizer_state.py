"""Optimizer, scaler and moving average as plain tensors and JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from posemill.errors import TrainingError
from posemill.training.loop.stepping import Stepper


def pack_optimizer(stepper: Stepper) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return (tensors by dotted name, JSON) of all that a stepper remembers."""
    whole = stepper.optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, entries in whole["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
            else:
                plain[f"{index}.{name}"] = value
    if stepper.average:
        average = stepper.average
        for name, shadow in zip(average.names, average.shadow, strict=True):
            tensors[f"average.{name}"] = shadow
    packed = {
        "groups": whole["param_groups"],
        "plain": plain,
        "scaler": stepper.scaler.state_dict(),
        "kind": _kind_of(stepper.optimizer),
    }
    if hasattr(stepper.optimizer, "pack_schedulers"):
        tensors["schedulers"] = stepper.optimizer.pack_schedulers()
    return tensors, packed


def unpack_optimizer(
    stepper: Stepper, tensors: Mapping[str, Tensor], packed: Mapping[str, Any]
) -> None:
    """Put back what `pack_optimizer` returned."""
    kind = _kind_of(stepper.optimizer)
    if packed["kind"] != kind:
        raise TrainingError(
            f"the checkpoint was written by optimizer {packed['kind']}, this training has {kind}; "
            "use the same --optimizer to continue, or another --out"
        )
    state: dict[int, dict[str, Any]] = {}
    values = {name.removeprefix("optimizer."): t for name, t in tensors.items()
              if name.startswith("optimizer.")}  # fmt: skip
    for name, value in (*values.items(), *packed["plain"].items()):
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = value
    stepper.optimizer.load_state_dict({"state": state, "param_groups": packed["groups"]})
    if "schedulers" in tensors and hasattr(stepper.optimizer, "unpack_schedulers"):
        stepper.optimizer.unpack_schedulers(tensors["schedulers"])
    stepper.scaler.load_state_dict(dict(packed["scaler"]))
    if stepper.average:
        average = stepper.average
        for name, shadow in zip(average.names, average.shadow, strict=True):
            if f"average.{name}" not in tensors:
                raise TrainingError(
                    "the checkpoint has no moving average: continue with --ema-decay 0"
                )
            shadow.copy_(tensors[f"average.{name}"])


def _kind_of(optimizer: Any) -> str:
    return str(getattr(optimizer, "name", type(optimizer).__name__))
