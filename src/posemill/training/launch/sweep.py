"""Many trainings from one file: a grid, random draws, folds; and where each one stands.

    config = "jhmdb.toml"          # what all trainings share, beside this file
    out = "runs/sweep"
    [grid]                         # every combination
    lr = [1e-3, 2e-3]
    [random]                       # so many draws of these, for every combination
    samples = 4
    seed = 0
    weight_decay = { low = 1e-4, high = 1e-1, log = true }
    width = { choices = [64, 128] }   # a name the config does not have is a model option
    [folds]
    count = 5                      # every combination on each fold

A training is known by its settings. Those that have finished are not run again, one that was cut
off continues from its last checkpoint: the same command again continues a killed sweep.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import ConfigError
from posemill.outputs import expect_folder
from posemill.plugins import hint, unknown
from posemill.provenance import load_toml
from posemill.settings import find_field
from posemill.training.config.resolve import Resolved, decides_learning, read_config, resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.models import known_models, options_of
from posemill.training.record.live import read_object
from posemill.training.runs.status import flatten

_TABLES = ("config", "out", "settings", "grid", "random", "folds")


@dataclass(frozen=True)
class SweepJob:
    """One training of a sweep: its name, what it has different, and the folder where it writes.

    A name is `lr=0.1-1f2e3d4c` or `signer=anna-1f2e3d4c`: what it has different, and the digest of
    all its settings that decide what is learned.
    """

    name: str
    changes: Mapping[str, Any]
    folder: Path

    @property
    def run_folder(self) -> Path:
        """The folder of the training itself."""
        return self.folder / "run"

    @property
    def summary(self) -> dict[str, Any] | None:
        """What the training said at its end; None before."""
        return read_object(self.run_folder / "summary.json") or None


@dataclass(frozen=True)
class Sweep:
    """A sweep as a file describes it, and the folder of its jobs."""

    path: Path
    out: Path
    config: Path | None  # what all trainings share
    settings: Mapping[str, Any]  # more of what they share; it wins
    jobs: tuple[SweepJob, ...]
    started_by: str = "sweep"  # the command that is given `path`; or `train` with `leave_out`

    def resolve(self, job: SweepJob, *, cores: int) -> Resolved:
        """Return a job's whole configuration for its share of the cores."""
        shared = read_config(self.config) if self.config else {}
        flags = {**self.settings, **job.changes, "out": str(job.run_folder), "progress": False}
        layers = (shared, self.settings, job.changes)
        flags["model_options"] = dict(ChainMap(*(a.get("model_options", {}) for a in layers[::-1])))
        chosen = {**shared, **flags}
        # The jobs are the parallel work; a job does not spread beyond its own cores.
        if chosen.get("parallel", "auto") == "auto":
            flags["parallel"] = "single" if cores == 1 else "multi_thread"
        if chosen.get("parallel") != "multi_process" and not chosen.get("threads"):
            flags["threads"] = cores  # several processes divide the cores among themselves
        return resolve_config(self.config, flags, cores=cores)


def read_sweep(path: Path, *, out: str = "") -> Sweep:
    """Return the sweep of a TOML file; every setting is checked before anything runs."""
    table = load_toml(path, what="sweep")
    if unknown_tables := [name for name in table if name not in _TABLES]:
        template = "{path}: unknown table {name!r}; expected {names}"
        raise ConfigError(template, path=path, name=unknown_tables[0], names=", ".join(_TABLES))
    out = out or table.get("out", "")
    if not out:
        raise ConfigError("{path}: expected out = 'folder' in the file, or {--out}", path=path)
    expect_folder(out, kind="a sweep")
    config = path.parent / table["config"] if table.get("config") else None
    settings = TrainConfig.flatten(table.get("settings", {}), where=str(path))
    shared = {**(read_config(config) if config else {}), **settings}
    jobs: dict[str, SweepJob] = {}  # two random draws may be the same
    for change in _all_changes(path, table):
        words = [f"{name}={value}" for name, value in flatten(change).items()]
        job = make_job("+".join(words) or "training", change, Path(out), shared=shared)
        jobs[job.name] = job
    sweep = Sweep(path, Path(out), config, settings, tuple(jobs.values()))
    for job in sweep.jobs:
        _check_model(path, sweep.resolve(job, cores=1).config)
    return sweep


def _check_model(path: Path, config: TrainConfig) -> None:
    """Raise `ConfigError` for a model that is not known, or an option that it does not have."""
    model = config.model
    if model.name not in known_models():
        raise unknown("model", model.name, known_models())
    options = options_of(model.name) if model.options else []
    for name in [name for name in model.options if name not in options]:
        raise ConfigError(
            "{path}: {name!r} is no setting, and no option of model {model}, which has "
            "{options}{hint}",
            path=path,
            name=name,
            model=model.name,
            options=", ".join(options),
            hint=hint(name, [*options, *TrainConfig.all_fields()]),
        )


def _all_changes(path: Path, table: Mapping[str, Any]) -> list[dict[str, Any]]:
    grid = table.get("grid", {})
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            template = "{path}: grid.{name}: expected a list of values, got {values!r}"
            raise ConfigError(template, path=path, name=name, values=values)
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    draws = _draw(path, table.get("random", {}))
    folds = table.get("folds", {})
    count = folds.get("count", 0)
    if folds and (set(folds) != {"count"} or not isinstance(count, int) or count < 2):
        template = "{path}: folds: expected count = 2 or more, got {folds!r}"
        raise ConfigError(template, path=path, folds=dict(folds))
    splits = [{"folds": count, "fold": fold} for fold in range(count)] or [{}]
    return [
        _as_settings({**combination, **draw, **split})
        for combination, draw, split in product(combinations, draws, splits)
    ]


def _draw(path: Path, random: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The random draws: the same for the same seed, more samples only add to them."""
    names = [name for name in random if name not in ("samples", "seed")]
    if not names:
        return [{}]
    samples = random.get("samples", 0)
    if not isinstance(samples, int) or samples < 1:
        template = "{path}: random.samples: expected 1 or more, got {samples!r}"
        raise ConfigError(template, path=path, samples=samples)
    seed = int(random.get("seed", 0))
    rngs = [np.random.default_rng([seed, number]) for number in range(samples)]
    return [{name: _draw_one(path, name, random[name], rng) for name in names} for rng in rngs]


def _draw_one(path: Path, name: str, space: Any, rng: np.random.Generator) -> Any:
    if isinstance(space, dict) and isinstance(space.get("choices"), list) and space["choices"]:
        return space["choices"][int(rng.integers(len(space["choices"])))]
    try:
        low, high = space["low"], space["high"]
        is_log = bool(space.get("log", False))
        ends = (math.log(low), math.log(high)) if is_log else (low, high)
        value = float(rng.uniform(*ends))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        template = (
            "{path}: random.{name}: expected { low, high, log } or { choices }, got {space!r}"
        )
        raise ConfigError(template, path=path, name=name, space=space) from error
    value = math.exp(value) if is_log else value
    return round(value) if isinstance(low, int) and isinstance(high, int) else value


def _as_settings(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the config as they are, other names as options of the model."""
    fields = {name: find_field(TrainConfig, name) for name in changes}
    known = {field.flat: field.check(changes[name]) for name, field in fields.items() if field}
    options = {name: value for name, value in changes.items() if not fields[name]}
    if options:
        known["model_options"] = {**known.get("model_options", {}), **options}
    return known


def make_job(
    title: str, changes: Mapping[str, Any], out: Path, *, shared: Mapping[str, Any]
) -> SweepJob:
    """Return a training of a sweep, named by a title and the digest of its settings.

    What a file name cannot have becomes `_` in the title. Of the `shared` settings those that
    decide what is learned are part of the digest: another value makes another training of it.
    """
    learned = {name: value for name, value in shared.items() if decides_learning(name)}
    text = json.dumps({**learned, **changes}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    plain = re.sub(r"[^\w.=+-]", "_", title)[:40]
    name = f"{plain}-{digest}"
    return SweepJob(name, changes, out / name)


def tabulate(sweep: Sweep, failures: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return a row per job: its name, what it has different, its state and its scores."""
    rows = []
    for job in sweep.jobs:
        row: dict[str, Any] = {"job": job.name, **flatten(job.changes)}
        if (summary := job.summary) is not None:
            row |= {"state": "done", **_scores_of(summary), "seconds": summary.get("seconds")}
        elif failures and job.name in failures:
            row |= {"state": "failed", "reason": failures[job.name]}
        else:
            row["state"] = "started" if job.run_folder.is_dir() else "waiting"
        rows.append(row)
    return rows


def summarize(sweep: Sweep) -> list[dict[str, Any]]:
    """Return a row for each combination of settings: mean and spread of its folds' scores.

    Splits of the data (`data`, `labels`) count as folds too, where they are what differs.
    """
    aside = {"fold", "folds", "data", "labels", "seed"}
    groups: dict[str, list[dict[str, float]]] = {}
    for job in sweep.jobs:
        if (summary := job.summary) is not None:
            changes = flatten(job.changes)
            settings = {name: value for name, value in changes.items() if name not in aside}
            groups.setdefault(json.dumps(settings, sort_keys=True), []).append(_scores_of(summary))
    result = []
    for key, members in groups.items():
        entry: dict[str, Any] = {**json.loads(key), "trainings": len(members)}
        for name in members[0]:
            values = [float(scores[name]) for scores in members if name in scores]
            entry[f"{name}_mean"] = statistics.fmean(values)
            entry[f"{name}_spread"] = statistics.pstdev(values)
        result.append(entry)
    return result


def _scores_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of all splits, as `dev_accuracy`."""
    return {
        f"{split}_{name}": value
        for split, scores in summary["scores"].items()
        for name, value in scores.items()
    }
