"""`posemill tune`: one setting after the other takes turns with the best so far on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from posemill.errors import ConfigError, PosemillError
from posemill.machine.allocator import freed_memory_returned
from posemill.machine.limits import count_cores, free_memory
from posemill.machine.processes import under_torchrun
from posemill.messages import Message
from posemill.training.config.resolve import Resolved
from posemill.training.config.run_settings import loader_workers
from posemill.training.config.train_config import TrainConfig
from posemill.training.loggers import say
from posemill.training.loop.reporting import describe_videos
from posemill.training.precision import choose_device, choose_precision
from posemill.training.tuning.arms import (
    MakeFor,
    grown_memory,
    in_one_process,
    opened,
    run_processes,
)
from posemill.training.tuning.modes import PROCESS_SECONDS, decide, with_open_workers

_CLEARLY = 1.03  # less is noise
_LEAST_GAIN = 1.02  # of all together: less may be noise, and the settings stay
_ROUNDS, _LAST_ROUNDS = 3, 5
# That compiling takes and measuring after it; a CPU's code is compiled by its C++ compiler.
_COMPILE_SECONDS = {"cuda": 30.0, "cpu": 120.0}
_LITTLE_WAIT = 0.03  # of the time: more loader processes cannot gain more
_MEMORY_SHARE = 0.7  # of what is free
_LEAST_EPOCH_STEPS = 20  # a larger batch would leave too few
_LAST_SHARE = 0.25  # of the time, which the last comparison may take more
_NO_TIME = Message("not measured: no time left")
_GIVEN = ("flag", "given")
_MODE = ("parallel", "processes", "threads", "workers")  # measured together


@dataclass(frozen=True)
class Row:
    """One line of the table: the `gain` is against the best so far, which it took turns with."""

    setting: str
    samples_per_second: float | None = None
    gain: float | None = None
    note: str = ""  # `taken`, or why it was not measured


@dataclass(frozen=True)
class Tuned:
    """What was measured, and the settings to train with: the user's, with what was found."""

    resolved: Resolved
    rows: tuple[Row, ...]
    before: float  # samples a second of the settings as they were, at the end
    after: float  # those of the settings found, in turns with them
    found: dict[str, Any]  # by flat name; nothing where nothing was clearly faster

    @property
    def gain(self) -> float:
        """How many times as fast; 1 where the settings stay."""
        return self.after / self.before if self.found else 1.0

    def lines(self) -> list[str]:
        """Return what is said of it, in a line or two."""
        if not self.found:
            return [Message("tuned: nothing was clearly faster than these settings, which stay")]
        template = "tuned: {after:.0f} samples/s, {before:.0f} before ({gain:.2f}x)"
        return [
            Message("tuned: {values}", values=_spell(self.found)),
            Message(template, after=self.after, before=self.before, gain=self.gain),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "found": self.found,
            "samples_per_second_before": self.before,
            "samples_per_second": self.after,
            "gain": self.gain,
            "rows": [asdict(row) for row in self.rows],
        }


class Search:
    """Finds faster settings; `best` has those found so far, `reasons` why.

    It begins with `base`: as a training would run, all decided. Where that has several processes,
    settings are measured in one of them, and the last comparison with all. `fixed` settings stay;
    where it `keeps_maths`, batch and precision too.
    """

    def __init__(
        self,
        make: MakeFor,
        base: TrainConfig,
        seconds: float,
        *,
        keeps_maths: bool = False,
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        self.make, self.best, self.seconds = make, base, seconds
        self.keeps_maths, self.fixed = keeps_maths, fixed
        self.rows: list[Row] = []
        self.reasons: dict[str, str] = {}
        self._end = time.monotonic() + seconds
        self._window = min(2.0, max(0.1, seconds / 60))
        self._device = choose_device(base.device)
        self._is_on_cpu = self._device.type == "cpu"
        # For processes, which come last and gain most where the cores compute.
        may_try = self._is_on_cpu and not self._has_processes and seconds >= 2 * PROCESS_SECONDS
        self._kept_back = PROCESS_SECONDS if may_try else 0.0

    @property
    def _has_processes(self) -> bool:
        return bool(self.best.parallel == "multi_process")

    @property
    def seconds_left(self) -> float:
        """Of the time that all may take."""
        return self._end - time.monotonic()

    def _say_what(self, text: str) -> None:
        if self.best.progress:
            say(Message("measuring: {what}", what=text))

    def run(self) -> None:
        """Go through all settings, as far as the time allows."""
        steps = {
            "cache": self._caches,
            "threads": self._threads,
            "channels_last": self._layouts,
            "workers": self._workers,
            "prefetch_factor": self._prefetch,
            "micro_batch": self._micro_batches,
            "precision": self._precisions,
            "batch_size": self._batch_sizes,
            "compile": self._compile,
            "processes": self._processes,
        }
        for setting, step in steps.items():
            if self.seconds_left > 0:
                self._say_what(setting)
                step()
            else:
                self.rows.append(Row(setting, note=_NO_TIME))

    def try_values(self, *candidates: Mapping[str, Any], least_seconds: float = 0.0) -> None:
        """Measure settings in turns with the best so far, and keep what is clearly faster."""
        known = [values for values in candidates if self._is_open(values)]
        # An arm is opened, warms up, and runs its rounds.
        needed = max(least_seconds, (len(known) + 1) * _ROUNDS * self._window / 2)
        if known and self.seconds_left - self._kept_back < needed:
            self._skip(_NO_TIME, *known)
        elif known:
            self._measure(known, lambda configs: self.take_turns([self.best, *configs]))

    def _is_open(self, values: Mapping[str, Any]) -> bool:
        is_new = any(getattr(self.best, name) != value for name, value in values.items())
        return is_new and not self.fixed & set(values)

    def _skip(self, note: Message, *candidates: Mapping[str, Any]) -> None:
        self.rows += [Row(_spell(values), note=note) for values in candidates]

    def _measure(
        self,
        known: Sequence[Mapping[str, Any]],
        measure: Callable[[list[TrainConfig]], Sequence[float]],
    ) -> None:
        """Keep the fastest of some values if it is clearly faster."""
        try:
            before, *speeds = measure([self.best.replace(**values) for values in known])
        except (PosemillError, RuntimeError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            self._skip(Message("cannot be used: {error}", error=reason), *known)
            return
        fastest = max(range(len(known)), key=lambda number: speeds[number])
        is_clear = speeds[fastest] > before * _CLEARLY
        for number, (values, speed) in enumerate(zip(known, speeds, strict=True)):
            note = "taken" if is_clear and number == fastest else ""
            self.rows.append(Row(_spell(values), speed, speed / before, note))
        if is_clear:
            old = _spell({name: getattr(self.best, name) for name in known[fastest]})
            self.best = self.best.replace(**known[fastest])
            template = "measured {speed:.0f} samples/s, {before:.0f} with {settings}"
            why = Message(template, speed=speeds[fastest], before=before, settings=old)
            self.reasons |= dict.fromkeys(known[fastest], why)

    def take_turns(self, configs: Sequence[TrainConfig], rounds: int = _ROUNDS) -> list[float]:
        """Return the median samples a second of each, all in turns.

        What is half as fast as the first one, or slower, has one turn; so have all on a machine so
        busy that the time is up.
        """
        with opened(self.make, [in_one_process(config) for config in configs]) as arms:
            found = [[arm.run(self._window)] for arm in arms]
            for _ in range(rounds - 1):
                if self.seconds_left < -self.seconds * _LAST_SHARE:
                    break
                for arm, speeds in zip(arms, found, strict=True):
                    if speeds[0] > found[0][0] / 2:
                        speeds.append(arm.run(self._window))
        return [statistics.median(speeds) for speeds in found]

    def compare(self, base: TrainConfig) -> tuple[float, float]:
        """Return samples a second of where it began and of the best, once more."""
        self._say_what(Message("the settings found, against those before"))
        if "multi_process" not in (base.parallel, self.best.parallel):
            before, after = self.take_turns([base, self.best], rounds=_LAST_ROUNDS)
            return before, after
        try:
            return self._run_alone(base), self._run_alone(self.best)
        except PosemillError as error:
            note = Message("not compared: {error}", error=error)
            self.rows.append(Row(Message("the settings found"), note=note))
            return 1.0, 1.0  # what was there stays

    def _run_alone(self, config: TrainConfig) -> float:
        if config.parallel == "multi_process":
            return run_processes(self.make, config, most_seconds=max(60.0, self.seconds_left))
        return self.take_turns([config], rounds=2)[0]

    def _caches(self) -> None:
        clips = self.make(self.best).train.video
        if clips is None:
            self.try_values({"cache": "ram"})
            return
        self._frame_cache({"cache": "mmap"})
        if any(clip.kind == "video" for clip in clips.clips) and self.best.cache == "none":
            # The quickest decoder whose frames are the same, as `posemill bench decode` finds it.
            decoder = self.make(self.best.replace(video_decoder="auto")).train.video.decoder
            self.try_values({"video_decoder": decoder})

    def _frame_cache(self, values: Mapping[str, Any]) -> None:
        """Decoding once: its first epoch is slower, all others are not, and it takes disk."""
        facts = describe_videos(self.make(self.best).train)
        if not facts or not self._is_open(values):
            return
        needed, free = facts["decoded_bytes"] / 1e9, facts["free_bytes"] / 1e9
        if needed > free:
            note = "not tried: about {needed:.1f} GB, and {free:.1f} GB are free"
            self._skip(Message(note, needed=needed, free=free), values)
            return

        def measure(configs: list[TrainConfig]) -> tuple[float, float]:
            first = self._fill(*configs)
            before, speed = self.take_turns([self.best, *configs])
            epochs = self.best.epochs  # the first of which decodes
            return before, epochs / (1 / first + (epochs - 1) / speed)

        self._measure([values], measure)

    def _fill(self, config: TrainConfig) -> float:
        """Return samples a second while the cache is filled with the clips that are measured."""
        with opened(self.make, [in_one_process(config)]) as (arm,):
            return arm.run_steps()

    def _threads(self) -> None:
        cores = count_cores()
        if not self._is_on_cpu or cores < 2 or self._has_processes:
            return
        other = {"parallel": "multi_thread", "threads": cores, "workers": 0}
        if self.best.parallel == "multi_thread":
            workers = loader_workers(self.best.preset, cores=cores, ranks=1)
            other = {"parallel": "single", "threads": 1, "workers": workers}
        self.try_values(other)

    def _layouts(self) -> None:
        model = self.make(self.best).model
        if any(weights.ndim in (4, 5) for weights in model.parameters()):
            self.try_values({"channels_last": True})

    def _workers(self) -> None:
        if self._is_on_cpu and self._has_processes:
            return  # they have all cores
        if (waited := self._share_waited()) < _LITTLE_WAIT:
            note = Message("not measured: {waited:.0%} of the time waits for data", waited=waited)
            self.rows.append(Row("workers", note=note))
            return
        cores = count_cores()
        counts = sorted({0, 1, 2, cores - 1, cores})
        self.try_values(*({"workers": count} for count in counts if count <= cores))

    def _share_waited(self) -> float:
        """Return the share of a training with the best settings that waits for data."""
        with opened(self.make, [in_one_process(self.best)]) as (arm,):
            arm.run(self._window)
            return arm.share_waited

    def _prefetch(self) -> None:
        if self.best.workers:
            self.try_values({"prefetch_factor": 4})

    def _micro_batches(self) -> None:
        """Smaller passes where they are as fast, larger ones as long as they pay and fit."""
        batch = in_one_process(self.best).batch_size
        micro = min(self.best.micro_batch, batch)
        sizes = [size for size in (micro // 2, micro * 2, micro * 4) if 4 <= size <= batch]
        fitting = [n for n in sizes if n < micro or self._fits({"micro_batch": n}, n)]
        self.try_values(*({"micro_batch": size} for size in fitting))

    def _precisions(self) -> None:
        if not self.keeps_maths and not self.best.deterministic:
            usual = choose_precision("auto", self._device).name  # never one that is emulated
            self.try_values(*({"precision": name} for name in {"fp32", usual}))

    def _batch_sizes(self) -> None:
        """The knee: as long as twice the clips of a step are clearly faster, and fit."""
        if self.keeps_maths or self.fixed & {"batch_size", "micro_batch"}:
            return
        train, before = self.make(self.best).train, 0
        while self.best.batch_size != before:
            before = self.best.batch_size
            size, passes = before * 2, min(before * 2, self.best.micro_batch * 2)
            values = {"batch_size": size, "micro_batch": passes}
            if len(train) < size * _LEAST_EPOCH_STEPS or not self._fits(values, passes):
                return
            if train.video is not None and self.best.cache != "none":
                self._fill(self.best.replace(**values))  # of more clips, some not yet decoded
            self.try_values(values)

    def _fits(self, values: Mapping[str, Any], num_clips: int) -> bool:
        """Return whether a pass of so many clips fits, by how much one of today's size takes."""
        micro = min(self.best.micro_batch, self.best.batch_size)
        config = in_one_process(self.best).replace(workers=0, batch_size=micro)
        with opened(self.make, [config]) as (arm,):
            grown = grown_memory(partial(arm.run_steps, 2), self._device)
        needed, free = grown * num_clips / micro, free_memory()
        if not self._is_on_cpu:
            free = torch.cuda.mem_get_info(self._device)[0]
        if needed > free * _MEMORY_SHARE:
            note = "not tried: about {needed:.0f} MB, and {free:.0f} MB are free"
            self._skip(Message(note, needed=needed / 1e6, free=free / 1e6), values)
            return False
        return True

    def _compile(self) -> None:
        least_seconds = _COMPILE_SECONDS["cpu" if self._is_on_cpu else "cuda"]
        self.try_values({"compile": "on"}, least_seconds=least_seconds)

    def _processes(self) -> None:
        """Several processes: started anew for each measurement, so once, and clearly faster."""
        cores = count_cores()
        values = {"parallel": "multi_process", "processes": cores, "threads": 1, "workers": 0}
        is_possible = self._is_on_cpu and cores > 1 and not self._has_processes
        has_order = self.make(self.best).train.stream is not None  # which they cannot share
        if not is_possible or self.fixed & set(values) or has_order:
            return
        if self.seconds_left < PROCESS_SECONDS - 5:
            self._skip(_NO_TIME, values)
        else:
            self._measure([values], lambda new: [self._run_alone(one) for one in (self.best, *new)])


def tune_training(make: MakeFor, resolved: Resolved) -> Tuned:
    """Return faster settings for what `make` returns, measured on this machine.

    `tune = "speed"` leaves batch and precision alone; flags, and settings given in Python, stay.
    """
    if under_torchrun():
        raise ConfigError(
            "tune measures in one process: run posemill tune first, and give the file that it "
            "writes to torchrun"
        )
    config, started, make = resolved.config, time.monotonic(), _Kept(make)
    base, why = as_it_would_run(resolved, make, most_seconds=config.tune_seconds / 2)
    with freed_memory_returned():
        search = Search(
            make,
            base,
            started + config.tune_seconds * 0.8 - time.monotonic(),  # finding the mode took some
            keeps_maths=config.tune == "speed",
            fixed=frozenset(n for n, source in resolved.sources.items() if source in _GIVEN),
        )
        search.rows.append(Row(_spell({"precision": base.precision}), note=why))
        search.run()
        before, after = search.compare(base) if search.best != base else (1.0, 1.0)
    old, new = base.to_dict(), search.best.to_dict()
    changed = {name for name, value in new.items() if value != old[name]}
    if changed & set(_MODE):
        changed |= set(_MODE)
    is_faster = after >= before * _LEAST_GAIN
    found = {name: value for name, value in new.items() if is_faster and name in changed}
    template = "measured {after:.0f} samples/s, {before:.0f} before"
    together = Message(template, after=after, before=before)
    reasons = {name: search.reasons.get(name, together) for name in found}
    tuned = resolved.with_machine({**found, "tune": "none"}, reasons)
    settled = Resolved(tuned.config, {**tuned.sources, "tune": "default"})
    return Tuned(settled, tuple(search.rows), before, after, found)


def as_it_would_run(
    resolved: Resolved, make: MakeFor, *, most_seconds: float | None = None
) -> tuple[TrainConfig, str]:
    """Return the settings with all that a training decides by itself; why this number format."""
    config = with_open_workers(resolved)
    workload = make(config)
    plan, precision = decide(workload, make, config, most_seconds=most_seconds)
    config = config.replace(precision=precision.name)
    return plan.apply(config, is_threadsafe=workload.train.is_threadsafe), precision.reason


class _Kept:
    """The workload of a configuration, made anew only where the data are read in another way."""

    def __init__(self, make: MakeFor) -> None:
        self._make = make
        self._known: dict[tuple[str, ...], Any] = {}

    def __call__(self, config: TrainConfig) -> Any:
        way = config.data.cache, config.video.decoder
        if way not in self._known:
            self._known[way] = self._make(config)
        return self._known[way]

    def __reduce__(self) -> Any:  # another process reads its own
        return partial, (self._make,)


def _spell(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
