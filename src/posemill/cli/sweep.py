"""`posemill sweep`, `tune`, `advise`: which settings; `synthetic-corpus`: to try them on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from posemill.cli.options import AsJson, Overwrite, old_flags, with_config_flags
from posemill.cli.printing import print_json, print_lines, print_records, print_table, say
from posemill.cli.train import MIXED
from posemill.language import translate, word
from posemill.terminal import counted, printable, quoted
from posemill.training.config.train_config import TrainConfig


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("sweep")(old_flags({"--jobs": "--workers"})(sweep))
    app.command("tune")(MIXED(with_config_flags(tune, TrainConfig, skip=("out", "tune"))))
    app.command("advise")(advise)
    app.command("synthetic-corpus")(synthetic_corpus)


def sweep(
    file: Annotated[Path, typer.Argument(help="TOML file with grid, random or folds.")],
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side.")] = 1,
    out: Annotated[str, typer.Option(help="Folder; the file's own by default.")] = "",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the trainings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run independent trainings side by side; the same command again continues them."""
    from posemill.training.launch.sweep import read_sweep, summarize, tabulate

    found = read_sweep(file, out=out)
    failures = {} if dry_run else _run(found, workers)
    rows = tabulate(found, failures)
    means = summarize(found)
    if as_json:
        print_json({"trainings": rows, "means": means})
    else:
        print_records(rows)
        if len(means) < sum(row["state"] == "done" for row in rows):
            print_records(means)
    if failures:
        raise typer.Exit(1)


def _run(found: Any, workers: int) -> Any:
    """Run the sweep with a bar on stderr."""
    from rich.console import Console
    from rich.progress import Progress

    from posemill.training.launch.sweep_runner import run_sweep

    with Progress(console=Console(stderr=True)) as progress:
        done = sum(job.summary is not None for job in found.jobs)
        bar = progress.add_task("trainings", total=len(found.jobs), completed=done)

        def report(event: str, job: Any) -> None:
            line = printable(f"{job.name} {event}")
            progress.print(line, markup=False, highlight=False)
            progress.advance(bar, 0 if event == "started" else 1)

        return run_sweep(found, num_jobs=workers, report=report)


def tune(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file; every flag below is a field of it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="TOML file to write: yours, with what was found.")
    ] = None,
    *,
    keep_maths: Annotated[
        bool, typer.Option("--keep-maths", help="Leave batch and precision alone.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    flags: dict[str, Any],
) -> None:
    """Measure what makes a training faster on this machine."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is loaded, as train does
    from posemill.training.front import tune as measure

    found = measure(config, out=out, keep_maths=keep_maths, overwrite=overwrite, **flags)
    if as_json:
        print_json({"out": out, **found.to_json()})
        return
    rows = [
        (row.setting, "" if row.samples_per_second is None else f"{row.samples_per_second:.0f}",
         "" if row.gain is None else f"{row.gain:.2f}", word(translate(row.note)))
        for row in found.rows
    ]  # fmt: skip
    print_table(["setting", "samples/s", "gain", ""], rows)
    for line in found.lines():
        say(line)
    if out is not None:
        say(f"{out}: posemill train {quoted(out)} trains with it")


def advise(
    run: Annotated[Path, typer.Argument(help="Folder of a training, finished or not.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Say what would make a training faster, and how much."""
    from posemill.api.arguments import run_of
    from posemill.api.run_status import advise as find_advice
    from posemill.training.loop.timing import shares
    from posemill.training.tuning.advice import LEAST_SECONDS
    from posemill.training.tuning.evidence import read_evidence

    found = find_advice(run)
    evidence = read_evidence(run_of(run))
    share = shares(evidence.timing_seconds)
    if as_json:
        print_json({"run": run, **evidence.to_json(), "advice": [each.to_json() for each in found]})
        return
    lines = [
        ("run", str(run)),
        ("time", ", ".join(f"{word(part)} {value:.0%}" for part, value in share.items())),
    ]
    if evidence.seconds < LEAST_SECONDS:
        lines.append(("note", f"only {evidence.seconds:.0f} s were measured: too short to rely on"))
    said = [str(each) for each in found] or ["nothing to change"]
    print_lines([*lines, *(("advice", text) for text in said)])


def synthetic_corpus(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    glosses: Annotated[int, typer.Option(min=2, help="Size of the vocabulary.")] = 80,
    train: Annotated[int, typer.Option(min=1, help="Training clips; a tenth for dev, test.")] = 600,
    *,
    seed: Annotated[int, typer.Option(help="Decides everything.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write a made-up gloss corpus in PHOENIX layout, to try CTC training on."""
    from posemill.testing.synthetic import CorpusOptions, write_corpus

    few = max(2, train * 2 // 15)
    options = CorpusOptions(glosses, {"train": train, "dev": few, "test": few}, seed=seed)
    for split, count in write_corpus(out, options, overwrite=overwrite).items():
        say(f"{split}  {counted(count, 'clips')}")
