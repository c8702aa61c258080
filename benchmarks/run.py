"""Every figure of docs/all_benchmarks.md in its short form, as one table: `make bench`.

    python -m benchmarks.run [--only NAME …] [--list] [--shown] [--json] [--write]

Each benchmark runs in a process of its own, one after the other; under 20 minutes on two quiet
cores. What was measured is kept in `.bench/results.json` after every benchmark, so Ctrl-C loses
only the one under way, and `--only` renews some rows of it. `--shown` measures nothing and shows
what is kept; `--write` writes the tables of docs/all_benchmarks.md from it, where what was not
measured stays as it was, and the headlines of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import FIGURES, HEADLINES, Benchmark, Figure
from benchmarks.shared import instructions
from benchmarks.shared.document import HEADER, NOT_YET, Row, write_headlines, write_tables
from benchmarks.shared.measuring import NOT_HERE, describe_extensions, describe_machine, say
from posemill.files import atomic_path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".bench" / "results.json"
ALL_TABLES = ROOT / "docs" / "all_benchmarks.md"
PAGE = ROOT / "docs" / "benchmarks.md"
TIME_LIMIT_SECONDS = 900


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, show all that is known; return the exit code."""
    options = parse(arguments)
    chosen = choose(FIGURES, options.only)
    if options.list:
        print("\n".join(f"{figure.name:44} {figure.wanted}".rstrip() for figure in chosen))
        return 0
    kept = load(RESULTS)
    interrupted = False
    try:
        if not options.shown:
            measure(chosen, kept, RESULTS)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted: what was measured before is kept")
    rows = [to_row(figure, kept) for figure in FIGURES]
    shown = [row for row in rows if row.figure in chosen]
    if options.json:
        print(
            json.dumps(
                {"machine": describe_runs(kept), "rows": list(map(to_json, shown))}, indent=1
            )
        )
    else:
        print_table(shown, kept)
    if options.write:
        tables = write_tables(ALL_TABLES.read_text(), rows, describe_machine())
        ALL_TABLES.write_text(tables)
        PAGE.write_text(write_headlines(PAGE.read_text(), tables, HEADLINES))
        say(f"wrote {ALL_TABLES.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    if interrupted:
        return 130
    return int(any(row.problem.startswith("failed") for row in shown))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="figures whose names contain one of these; see --list")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="the names of the figures")
    parser.add_argument("--shown", action="store_true", help="measure nothing, show what is kept")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--write", action="store_true", help="write the tables of the page")
    return parser.parse_args(arguments)


def choose(figures: Sequence[Figure], names: Sequence[str]) -> list[Figure]:
    """Return the figures whose names contain one of `names`; all without any."""
    for name in names:
        if not any(name in figure.name for figure in figures):
            raise SystemExit(f"no figure's name contains {name!r}; --list shows them all")
    return [each for each in figures if not names or any(name in each.name for name in names)]


def load(path: Path) -> dict[str, Any]:
    """Return what was measured before, or nothing yet."""
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text())
        return kept
    return {"machine": {}, "benchmarks": {}}


def measure(figures: Sequence[Figure], kept: dict[str, Any], results: Path) -> None:
    """Run the benchmarks of these figures and put what they say into `kept`, and on disk."""
    kept["machine"] = describe_machine()
    benchmarks = list(dict.fromkeys(figure.benchmark for figure in figures))
    for number, benchmark in enumerate(benchmarks, start=1):
        say(f"[{number}/{len(benchmarks)}] {benchmark.command}")
        begun, date, load = time.monotonic(), datetime.now(UTC), os.getloadavg()[0]
        outcome = run(benchmark)
        outcome |= {
            "seconds": round(time.monotonic() - begun),
            "date": f"{date:%Y-%m-%d %H:%M}",
            "processor": describe_extensions(),
            "load": load,
        }
        kept["benchmarks"][benchmark.command] = outcome
        say(f"    {outcome['seconds']} s {outcome['problem']}")
        results.parent.mkdir(exist_ok=True)
        with atomic_path(results) as temporary:
            temporary.write_text(json.dumps(kept, indent=1))


def describe_runs(kept: dict[str, Any]) -> dict[str, str]:
    """Return the machine, and between which dates and loads its benchmarks began."""
    outcomes = kept["benchmarks"].values()
    dates = sorted(outcome["date"] for outcome in outcomes)
    loads = sorted(outcome["load"] for outcome in outcomes)
    if not dates:
        return dict(kept["machine"])
    return {
        **kept["machine"],
        "date": f"{dates[0]} to {dates[-1]} UTC",
        "load before each": f"{loads[0]:.1f} to {loads[-1]:.1f}",
    }


def run(benchmark: Benchmark) -> dict[str, Any]:
    """Return `{"found": …, "problem": …}` of one benchmark; a problem is no exception."""
    gone = [name for name in benchmark.needs if find_spec(name) is None]
    if gone:
        return _problem(f"not run: needs {', '.join(gone)}; run: make bench-setup")
    command = [sys.executable, "-m", f"benchmarks.{benchmark.module}",
               *benchmark.arguments.split(), "--json"]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                              timeout=TIME_LIMIT_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        return _problem(f"failed: not done after {TIME_LIMIT_SECONDS} s")
    words = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    if done.returncode == NOT_HERE:
        return _problem(f"not run: {words}")
    if done.returncode:
        say(done.stderr)
        return _problem(f"failed: {words}")
    return {"found": json.loads(done.stdout.splitlines()[-1]), "problem": ""}


def _problem(words: str) -> dict[str, Any]:
    return {"found": {}, "problem": words}


def to_row(figure: Figure, kept: dict[str, Any]) -> Row:
    """Return the row of a figure from what was measured."""
    outcome = kept["benchmarks"].get(figure.benchmark.command)
    if outcome is None:
        return Row(figure, problem=NOT_YET)
    found = outcome["found"].get(figure.key)
    when = f"{outcome['date'][:10]}, {outcome['processor']}, load {outcome['load']:.1f}"
    if found is not None:
        return Row(figure, **found, when=when)
    problem = outcome["problem"]
    if not problem and "instructions" in figure.key and instructions.missing():
        problem = f"not run: {instructions.missing()}"
    return Row(figure, problem=problem or f"failed: the benchmark gave no {figure.key!r}")


def to_json(row: Row) -> dict[str, Any]:
    """Return a row as plain values."""
    figure = row.figure
    held = None if row.value is None else figure.holds(row.value)
    return {"name": figure.name, "what": figure.what, "command": figure.benchmark.command,
            "at_least": figure.at_least, "at_most": figure.at_most, "unit": figure.unit.strip(),
            "held": held, **{key: value for key, value in asdict(row).items() if key != "figure"},
            }  # fmt: skip


def print_table(rows: Sequence[Row], kept: dict[str, Any]) -> None:
    """Print the rows, what each benchmark took, and how many are not as wanted."""
    table = Table("figure", *HEADER[2:])
    for row in rows:
        held = row.held.strip("*")
        measured = row.measured if row.value is not None else f"[yellow]{row.measured}[/]"
        table.add_row(row.figure.name, row.figure.wanted, measured, row.spread,
                      f"[red]{held}[/]" if held == "no" else held, row.when)  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    for command in dict.fromkeys(row.figure.benchmark.command for row in rows):
        outcome = kept["benchmarks"].get(command)
        if outcome:
            print(f"{outcome['seconds']:5} s  load {outcome['load']:.1f}  {command}")
    missed = sum(row.held == "**no**" for row in rows)
    absent = sum(row.value is None for row in rows)
    print(f"{len(rows)} figures, {missed} not as wanted, {absent} not measured")
    print(", ".join(f"{key}: {value}" for key, value in describe_runs(kept).items()))


if __name__ == "__main__":
    raise SystemExit(main())
