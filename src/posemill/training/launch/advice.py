"""From the split of the time to the one or two settings worth changing, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posemill.terminal import counted
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.timing import shares

LEAST_SECONDS = 60.0  # of a shorter training nothing can be told
_MOST = 2
_DATA_SHARE = 0.10
_TRANSFER_SHARE = 0.10
_OPTIMIZER_SHARE = 0.25
_SIDE_SHARE = 0.05  # evaluation or checkpoint
_BUSY_SHARE = 0.80


@dataclass(frozen=True)
class Advice:
    """A setting to change and what was seen.

    Args:
        setting: Field of `TrainConfig`.
        change: The command-line words to try.
        evidence: The measurement behind it.
        weight: Share of the time at stake, to sort by.
    """

    setting: str
    change: str
    evidence: str
    weight: float

    def __str__(self) -> str:
        return f"{self.evidence}: try {self.change}"


def advise(
    seconds: Mapping[str, float],
    config: TrainConfig,
    *,
    cores: int,
    ranks: int,
    num_evals: int,
    busy: float | None = None,
    is_gpu: bool = False,
) -> list[Advice]:
    """Return at most two changes, the larger share of the time first; none if all is well.

    A training of less than a minute gets none.

    Args:
        seconds: By part, as `Clock.read` returns.
        config: The settings in use, `workers` resolved.
        cores: Cores that this process may use.
        ranks: Processes that trained.
        num_evals: Evaluations that ran.
        busy: Share of the time in which the GPU, or the cores, were at work; None if unknown.
        is_gpu: Which of them.
    """
    if sum(seconds.values()) < LEAST_SECONDS:
        return []
    share = shares(seconds)
    found = [
        _on_data(share["data"], config, cores // max(1, ranks)),
        _on_transfer(share["transfer"], config),
        _on_optimizer(share["optimizer"], config, ranks),
        _on_evaluation(share["evaluation"], config, num_evals),
        _on_checkpoint(share["checkpoint"], config),
    ]
    kept = [advice for advice in found if advice]
    # What leaves the device idle is named above; where nothing is, there is too little to do.
    if not kept and busy is not None and busy < _BUSY_SHARE:
        kept = [_on_idle(busy, config, cores=cores, is_gpu=is_gpu)]
    return sorted(kept, key=lambda advice: -advice.weight)[:_MOST]


def _on_data(share: float, config: TrainConfig, own_cores: int) -> Advice | None:
    if share < _DATA_SHARE:
        return None
    workers, spare = config.workers, own_cores - 1
    few = "1 loader process" if workers else "no loader process"
    loaders = f"{workers} loader processes" if workers > 1 else few
    seen = f"{share:.0%} of the time waits for data with {loaders} on {counted(own_cores, 'cores')}"
    if config.cache == "hdf5":
        return Advice("cache", "--cache mmap (or ram)", f"{seen} and cache hdf5", share)
    if workers > own_cores:
        return Advice("workers", f"--workers {max(1, spare)}", seen, share)
    if workers < spare:
        more = min(spare, max(2, workers * 2))
        return Advice("workers", f"--workers {more}", seen, share)
    if config.cache == "mmap":
        return Advice("cache", "--cache ram", seen, share)
    if workers and config.prefetch_factor < 4:
        change = f"--prefetch-factor {config.prefetch_factor * 2}"
        return Advice("prefetch_factor", change, seen, share)
    return None


def _on_idle(busy: float, config: TrainConfig, *, cores: int, is_gpu: bool) -> Advice:
    what = "the GPU was" if is_gpu else f"the {counted(cores, 'cores were')}"
    seen = f"{what} busy for {busy:.0%} of the time, less than {_BUSY_SHARE:.0%}"
    if not is_gpu and config.parallel == "single" and cores > 1:
        return Advice("parallel", "--parallel auto", seen, 1 - busy)
    if config.micro_batch < config.batch_size:
        return Advice("micro_batch", f"--micro-batch {config.micro_batch * 2}", seen, 1 - busy)
    return Advice("batch_size", f"--batch-size {config.batch_size * 2}", seen, 1 - busy)


def _on_transfer(share: float, config: TrainConfig) -> Advice | None:
    if share < _TRANSFER_SHARE or config.pin_memory:
        return None
    return Advice("pin_memory", "--pin-memory", f"{share:.0%} goes into copies to the GPU", share)


def _on_optimizer(share: float, config: TrainConfig, ranks: int) -> Advice | None:
    if share < _OPTIMIZER_SHARE:
        return None
    if ranks > 1:
        seen = f"{share:.0%} goes into the optimizer and the sum of gradients over {ranks} ranks"
        change = f"--batch-size {config.batch_size * 2} (fewer sums), or --parallel multi_thread"
        return Advice("batch_size", change, seen, share)
    seen = f"{share:.0%} goes into the optimizer: the batch is small for this model"
    return Advice("batch_size", f"--batch-size {config.batch_size * 2}", seen, share)


def _on_evaluation(share: float, config: TrainConfig, num_evals: int) -> Advice | None:
    if share < _SIDE_SHARE or num_evals < 2:
        return None
    change = f"--eval-every {config.eval_every * 2}"
    seen = f"{share:.0%} goes into {counted(num_evals, 'evaluations')}"
    return Advice("eval_every", change, seen, share)


def _on_checkpoint(share: float, config: TrainConfig) -> Advice | None:
    if share < _SIDE_SHARE:
        return None
    if config.save_every_steps:
        change = f"--save-every-steps {config.save_every_steps * 2}"
        setting = "save_every_steps"
    else:
        change, setting = f"--save-every {config.save_every * 2}", "save_every"
    return Advice(setting, change, f"{share:.0%} goes into checkpoints", share)
