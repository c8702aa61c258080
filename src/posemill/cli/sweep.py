"""`posemill sweep`, `posemill synthetic-corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from posemill.cli.options import old_flags
from posemill.cli.printing import print_json, print_records, say
from posemill.terminal import counted, printable


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("sweep")(old_flags({"--jobs": "--workers"})(sweep))
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
    means = summarize(rows)
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


def synthetic_corpus(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    glosses: Annotated[int, typer.Option(min=2, help="Size of the vocabulary.")] = 80,
    train: Annotated[int, typer.Option(min=1, help="Training clips; a tenth for dev, test.")] = 600,
    *,
    seed: Annotated[int, typer.Option(help="Decides everything.")] = 0,
) -> None:
    """Write a made-up gloss corpus in PHOENIX layout, to try CTC training on."""
    from posemill.training.data.synthetic import CorpusOptions, write_corpus

    few = max(2, train * 2 // 15)
    options = CorpusOptions(glosses, {"train": train, "dev": few, "test": few}, seed=seed)
    for split, count in write_corpus(out, options).items():
        say(f"{split}  {counted(count, 'clips')}")
