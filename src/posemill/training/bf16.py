"""Whether bf16 works on this CPU: it is tried, as the flags of a processor may promise too much.

It is tried in copies of a process that has loaded torch and not computed before: as the machine is,
and with AMX off. posemill's own program copies itself; elsewhere, where torch may have computed,
`python -m posemill.training.bf16` is copied, which prints an `Outcome` a line, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any

from posemill import machine
from posemill.machine.processes import die_with_parent, python_command
from posemill.machine.trials import Outcome, kept_outcomes, run_child, run_in_fork
from posemill.messages import Message

# oneDNN reads it once, at the first product that it computes.
ISA_VARIABLE, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
# Set beside it by us, so that our processes know why.
_MARK = "POSEMILL_AMX_OFF"
# With other values of these torch uses other instructions.
_VARIABLES = (ISA_VARIABLE, "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
_HANG_SECONDS = 8.0  # of computing, which takes a twentieth of a second
_LOAD_SECONDS = 60.0  # of torch from a cold disk on a busy machine
_WIDTH, _FRAMES, _BATCH = 128, 32, 8


@dataclass(frozen=True)
class Bf16Trial:
    """What came of trying bf16 as the machine is, and with AMX off (None: not tried)."""

    plain: Outcome
    without_amx: Outcome | None = None

    @property
    def needs_amx_off(self) -> bool:
        """True where bf16 works only with AMX off."""
        return not self.plain.works and self.without_amx is not None and self.without_amx.works

    @property
    def works(self) -> bool:
        """True where bf16 works in this process, and in those that it starts."""
        return self.plain.works or (self.needs_amx_off and _is_amx_off())

    @property
    def outcome(self) -> Outcome:
        """The trial whose way is taken; `seconds` are of a small step in `fp32` and `bf16`."""
        if self.without_amx is not None and self.without_amx.works:
            return self.without_amx
        return self.plain

    def describe(self) -> str:
        """Return what is said of it in this process; empty where bf16 works as the machine is."""
        template = (
            "bf16 works on this CPU only with AMX off, which torch takes only before it computes: "
            "start the program with {variable}={value}"
        )
        if self.needs_amx_off and not self.works:
            return Message(template, variable=ISA_VARIABLE, value=WITHOUT_AMX)
        return self.describe_machine()

    def describe_machine(self) -> str:
        """Return what is said of this machine; empty where bf16 works as it is."""
        template = "bf16 was tried on this CPU and failed: {reason}"
        if self.needs_amx_off:
            template = (
                "bf16 works on this CPU with AMX off ({variable}={value}); with AMX it fails: "
                "{reason}"
            )
        values = {"reason": self.plain.reason, "variable": ISA_VARIABLE, "value": WITHOUT_AMX}
        return "" if self.plain.works else Message(template, **values)


@cache
def try_bf16() -> Bf16Trial:
    """Return whether bf16 works on this CPU: kept from before, or tried now in a process."""
    if reason := os.environ.get(_MARK):  # our parent has tried it
        return Bf16Trial(Outcome(False, reason), Outcome(True))
    variables = {name: os.environ.get(name, "") for name in _VARIABLES}
    facts = {"torch": metadata.version("torch"), "python": sys.version, **variables}
    return Bf16Trial(*kept_outcomes("bf16", facts, _try)[:2])


def _try() -> list[Outcome]:
    if machine.is_own_program and "torch" in sys.modules and hasattr(os, "fork"):
        return list(_try_in_copies())
    command = python_command("posemill.training.bf16")
    ended, text = run_child(command, timeout_seconds=_LOAD_SECONDS + 2 * _HANG_SECONDS)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    return outcomes or [ended]


def _is_amx_off() -> bool:
    return os.environ.get(ISA_VARIABLE) == WITHOUT_AMX


@contextmanager
def amx_off_if_needed() -> Iterator[None]:
    """Switch AMX off for the block, here and in processes started there, where bf16 needs that.

    It stays on where torch has computed in this process already: then it is too late.
    """
    trial = try_bf16()
    is_needed = trial.needs_amx_off and not _is_amx_off()
    if is_needed and hasattr(os, "fork"):
        # In a copy of this process, where torch may have computed before.
        is_needed = run_in_fork(_measure_without_amx, timeout_seconds=_HANG_SECONDS).works
    if not is_needed:
        yield
        return
    variables = {ISA_VARIABLE: WITHOUT_AMX, _MARK: trial.plain.reason}
    os.environ |= variables
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)


def measure_steps() -> dict[str, float]:
    """Return the seconds of a step in both formats, the fastest of a few each, in turns.

    With one thread: a copy of a process does not have its threads, and on a busy machine threads
    that wait for each other take seconds.
    """
    import torch

    torch.set_num_threads(1)
    names = ("fp32", "bf16")
    turns = [{name: _take_step(torch, name) for name in names} for _ in range(4)]
    return {name: min(turn[name] for turn in turns) for name in names}


def _take_step(torch: Any, precision: str) -> float:
    """Return the seconds of a step: a layer of each kind, forward, backward, and to evaluate."""
    nn = torch.nn
    linear, convolution = nn.Linear(_WIDTH, _WIDTH), nn.Conv2d(3, 16, 3, padding=1)
    lstm = nn.LSTM(_WIDTH, _WIDTH, batch_first=True)
    attention = nn.MultiheadAttention(_WIDTH, 4, batch_first=True)
    layers = nn.ModuleList([linear, convolution, lstm, attention])
    frames = torch.randn(_BATCH, _FRAMES, _WIDTH)
    pictures = torch.randn(_BATCH, 3, _FRAMES, _FRAMES)
    started = time.perf_counter()
    for is_training in (True, False):
        layers.train(is_training)
        with (
            torch.set_grad_enabled(is_training),
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"),
        ):
            hidden, _ = lstm(linear(frames))
            mixed, _ = attention(hidden, hidden, hidden, need_weights=False)
            loss = mixed.float().square().mean() + convolution(pictures).float().square().mean()
        if is_training:
            loss.backward()
    seconds = time.perf_counter() - started
    gradients = [parameter.grad.isfinite().all() for parameter in layers.parameters()]
    if not all(gradients) or not loss.isfinite():
        raise ValueError("the results are not finite numbers")
    return seconds


def _try_in_copies() -> Iterator[Outcome]:
    """Try bf16 as the machine is; where that fails, with AMX off."""
    import torch  # noqa: F401  loaded once, for all copies

    outcome = run_in_fork(measure_steps, timeout_seconds=_HANG_SECONDS)
    yield outcome
    is_users_choice = os.environ.get(ISA_VARIABLE) or os.environ.get("DNNL_MAX_CPU_ISA")
    if not outcome.works and not is_users_choice:
        yield run_in_fork(_measure_without_amx, timeout_seconds=_HANG_SECONDS)


def _measure_without_amx() -> dict[str, float]:
    os.environ[ISA_VARIABLE] = WITHOUT_AMX
    return measure_steps()


def main() -> None:
    """Try bf16, and print what came of it."""
    die_with_parent()
    can_copy = hasattr(os, "fork")
    outcomes = _try_in_copies() if can_copy else [Outcome(True, seconds=measure_steps())]
    for outcome in outcomes:
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main()
