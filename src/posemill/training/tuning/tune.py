"""`posemill tune`: the user's settings, and what this machine was measured to be faster with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from posemill.errors import ConfigError
from posemill.language import translate
from posemill.machine.allocator import freed_memory_returned
from posemill.machine.processes import under_torchrun
from posemill.messages import Message, render
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.tasks.workload import build_workload
from posemill.training.tuning.arms import MakeFor
from posemill.training.tuning.modes import decide, processor_made_ready, with_open_workers
from posemill.training.tuning.search import Row, Search

_LEAST_GAIN = 1.02  # less may be noise: the settings stay
_MODE = ("parallel", "processes", "threads", "workers")


@dataclass(frozen=True)
class Tuned:
    """What was measured, and the settings to train with.

    Args:
        resolved: The user's settings, with what was found in them and why.
        rows: What was measured, in the order of time.
        before: Samples a second of the settings as they were, at the end, in turns with
        after: those of the settings found.
        found: What was changed, by flat name; nothing where nothing was clearly faster.
    """

    resolved: Resolved
    rows: tuple[Row, ...]
    before: float
    after: float
    found: dict[str, Any]

    @property
    def gain(self) -> float:
        """How many times as fast; 1 where the settings stay."""
        return self.after / self.before if self.found else 1.0

    def lines(self) -> list[str]:
        """Return what is said of it, in a line or two."""
        if not self.found:
            return [Message("tuned: nothing was clearly faster than these settings, which stay")]
        values = ", ".join(f"{name} {value}" for name, value in self.found.items())
        return [
            Message("tuned: {values}", values=values),
            Message(
                "tuned: {after:.0f} samples/s, {before:.0f} before ({gain:.2f}x)",
                after=self.after,
                before=self.before,
                gain=self.gain,
            ),
        ]

    def to_toml(self) -> str:
        """Return the configuration: what the user gave, and what was found, with the reason."""
        return self.resolved.to_toml(is_short=True)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "found": self.found,
            "samples_per_second_before": self.before,
            "samples_per_second": self.after,
            "gain": self.gain,
            "rows": [asdict(row) for row in self.rows],
        }


def tune(resolved: Resolved) -> Tuned:
    """Return faster settings for a training, measured on this machine, its data and its model.

    Args:
        resolved: The settings; `tune = "speed"` leaves batch and precision alone.
    """
    with processor_made_ready(resolved.config):
        return tune_training(build_workload, resolved)


def tune_training(make: MakeFor, resolved: Resolved) -> Tuned:
    """Return faster settings for what `make` returns; see `tune`."""
    if under_torchrun():
        raise ConfigError(
            "tune measures in one process: run posemill tune first, and give the file that it "
            "writes to torchrun"
        )
    config, started = resolved.config, time.monotonic()
    workload = make(config)  # what is wrong with the data shows before anything is measured
    base = as_it_would_run(resolved, make, most_seconds=config.tune_seconds / 2)
    has_bar = config.progress
    with freed_memory_returned(), _bar(config.tune_seconds, is_shown=has_bar) as report:
        search = Search(
            _Kept(make, base, workload),
            base,
            started + config.tune_seconds * 0.8 - time.monotonic(),  # finding the mode took some
            keeps_maths=config.tune == "speed",
            fixed=_fixed(resolved),
            report=report,
        )
        search.run()
        before, after = search.compare(base) if search.best != base else (1.0, 1.0)
    found: dict[str, Any] = {}
    if after >= before * _LEAST_GAIN:
        found = _differences(base, search.best)
    together = Message(
        "measured {after:.0f} samples/s, {before:.0f} before", after=after, before=before
    )
    reasons = {name: search.reasons.get(name, together) for name in found}
    settled = {**found, "tune": "none"}
    tuned = resolved.with_machine(settled, reasons)
    sources = {**tuned.sources, "tune": "default"}
    return Tuned(Resolved(tuned.config, sources), tuple(search.rows), before, after, found)


def as_it_would_run(
    resolved: Resolved, make: MakeFor, *, most_seconds: float | None = None
) -> TrainConfig:
    """Return the settings with all decided that a training decides by itself.

    Args:
        resolved: The settings.
        make: Returns the workload of a configuration.
        most_seconds: That several processes may take to be measured.
    """
    config = with_open_workers(resolved)
    workload = make(config)
    plan, precision = decide(workload, make, config, most_seconds=most_seconds)
    config = config.replace(precision=precision.name)
    return plan.apply(config, is_threadsafe=workload.train.is_threadsafe)


def _fixed(resolved: Resolved) -> frozenset[str]:
    """Settings that were given as flags, or in Python, stay."""
    return frozenset(
        name for name, source in resolved.sources.items() if source in ("flag", "given")
    )


def _differences(base: TrainConfig, best: TrainConfig) -> dict[str, Any]:
    before, after = base.to_dict(), best.to_dict()
    changed = {name: value for name, value in after.items() if value != before[name]}
    if changed.keys() & set(_MODE):  # they were measured together
        changed |= {name: after[name] for name in _MODE}
    return changed


def _way_of(config: TrainConfig) -> tuple[str, ...]:
    return config.data.cache, config.video.decoder


class _Kept:
    """The workload of a configuration, made anew only where the data are read in another way."""

    def __init__(self, make: MakeFor, base: TrainConfig, workload: Any) -> None:
        self._make, self._known = make, {_way_of(base): workload}

    def __call__(self, config: TrainConfig) -> Any:
        way = _way_of(config)
        if way not in self._known:
            self._known[way] = self._make(config)
        return self._known[way]

    def __reduce__(self) -> Any:  # another process reads its own
        return partial, (self._make,)


@contextmanager
def _bar(seconds: float, *, is_shown: bool) -> Iterator[Callable[[str], None]]:
    """Show a bar over the time that all may take; yield what is told what is measured now."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, quiet=not is_shown)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task(translate("measuring"), total=seconds)

        def report(text: str) -> None:
            done = progress.tasks[0].elapsed or 0.0
            shown = render(Message("measuring: {what}", what=text))
            progress.update(task, description=shown, completed=min(done, seconds))

        yield report
