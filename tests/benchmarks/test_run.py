"""`make bench`: what becomes of what the benchmarks print, and that each can still start."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.figures import FIGURES, HEADLINES, Benchmark, Figure
from benchmarks.shared.document import Row, write_headlines, write_tables

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "benchmarks"
SPEED = Figure("training", "ours / theirs", Benchmark("made.up", "--rounds 2"), "speed", at_least=2)
MEMORY = Figure("training", "memory", SPEED.benchmark, "peak", at_most=250, unit=" MB", digits=0)


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A folder `benchmarks` with a module `made.up`, whose body a test writes."""
    (tmp_path / "benchmarks" / "made").mkdir(parents=True)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path / "benchmarks" / "made" / "up.py"


def kept_of(outcome):
    outcome |= {"date": "2026-11-05 12:00", "processor": "AVX2", "load": 1.0}
    return {"machine": {}, "benchmarks": {SPEED.benchmark.command: outcome}}


def test_a_goal_is_held_from_its_value_on():
    free = Figure("training", "x", SPEED.benchmark, "x")
    assert [SPEED.holds(value) for value in (1.99, 2.0, 2.5)] == [False, True, True]
    assert [MEMORY.holds(value) for value in (251.0, 250.0, 1.0)] == [False, True, True]
    assert free.holds(0.0) is None
    assert (SPEED.wanted, MEMORY.wanted, free.wanted) == ("2 or more", "250 MB or less", "")


def test_what_a_benchmark_prints_last_becomes_rows(made_up):
    found = {"speed": {"value": 2.5, "low": 2.0, "high": 3.0, "note": "5 and 2"}}
    made_up.write_text(f"print('words of a library')\nprint({json.dumps(json.dumps(found))})")
    outcome = run.run(SPEED.benchmark)
    row = run.to_row(SPEED, kept_of(outcome))
    assert (row.measured, row.spread, row.held) == ("2.50", "2.00 to 3.00", "yes")
    assert run.to_json(row) == {
        "name": "up.speed", "what": "ours / theirs", "unit": "", "at_least": 2, "at_most": None,
        "command": "python -m benchmarks.made.up --rounds 2", "held": True, "value": 2.5,
        "low": 2.0, "high": 3.0, "note": "5 and 2", "problem": "",
        "when": "2026-11-05, AVX2, load 1.0",
    }  # fmt: skip
    other = run.to_row(MEMORY, kept_of(outcome))
    assert other.problem == "failed: the benchmark gave no 'peak'"


def test_a_benchmark_that_cannot_run_here_that_fails_or_hangs_says_why(made_up, monkeypatch):
    made_up.write_text("import sys\nprint('no network', file=sys.stderr)\nsys.exit(77)")
    assert run.run(SPEED.benchmark)["problem"] == "not run: no network"
    needy = Benchmark("made.up", needs=("no_such_package",))
    assert run.run(needy)["problem"] == "not run: needs no_such_package; run: make bench-setup"
    made_up.write_text("raise ValueError('2 is not 3')")
    assert run.run(SPEED.benchmark)["problem"] == "failed: ValueError: 2 is not 3"
    monkeypatch.setattr(run, "TIME_LIMIT_SECONDS", 0.5)
    made_up.write_text("import time\ntime.sleep(60)")
    assert run.run(SPEED.benchmark)["problem"] == "failed: not done after 0.5 s"


def test_ctrl_c_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    later = Figure("training", "later", Benchmark("made.later"), "x")

    def answer(benchmark):
        if benchmark == later.benchmark:
            raise KeyboardInterrupt
        return {"found": {"speed": {"value": 1.0}}, "problem": ""}

    monkeypatch.setattr(run, "run", answer)
    monkeypatch.setattr(run, "FIGURES", [SPEED, later])
    monkeypatch.setattr(run, "RESULTS", tmp_path / ".bench" / "results.json")
    assert run.main(["--json"]) == 130
    shown = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["value"], row["held"], row["problem"]) for row in shown] == [
        (1.0, False, ""),
        (None, None, "not run yet"),
    ]
    monkeypatch.setattr(run, "run", None)  # nothing is measured again
    assert run.main(["--shown"]) == 0
    assert "2 figures, 1 not as wanted, 1 not measured" in capsys.readouterr().out


def test_an_unknown_name_is_refused():
    assert run.choose([SPEED, MEMORY], ["peak"]) == [MEMORY]
    with pytest.raises(SystemExit, match="no figure's name contains 'pekk'; --list shows"):
        run.choose([SPEED, MEMORY], ["peak", "pekk"])


def test_tables_are_written_between_the_markers_and_the_text_stays():
    page = (
        "# Page\n<!-- bench:machine -->\nold\n<!-- /bench -->\nby hand\n"
        "<!-- bench:training -->\n<!-- /bench -->\nend\n"
    )
    when = "2026-11-05, AVX2, load 1.0"
    rows = [Row(SPEED, 1.5, 1.4, 1.6, "3 and 2", when=when), Row(MEMORY, problem="not run: why")]
    written = write_tables(page, rows, {"cores": "2 | 4"})
    assert written == (
        "# Page\n<!-- bench:machine -->\n|  |  |\n| --- | --- |\n| cores | 2 / 4 |\n"
        "<!-- /bench -->\nby hand\n<!-- bench:training -->\n"
        "| what | command | wanted | measured | spread | held | when |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| ours / theirs | `python -m benchmarks.made.up --rounds 2` | 2 or more "
        f"| **1.50**: 3 and 2 | 1.40 to 1.60 | **no** | {when} |\n"
        "| memory | same | 250 MB or less | not run: why |  |  |  |\n<!-- /bench -->\nend\n"
    )
    assert write_tables(written, rows, {"cores": "2 | 4"}) == written
    later = [Row(SPEED, problem="not run yet"), Row(MEMORY, 200.0, when="2026-11-09")]
    written = write_tables(written, later, {})
    assert f"| **1.50**: 3 and 2 | 1.40 to 1.60 | **no** | {when} |\n" in written
    assert "| memory | same | 250 MB or less | **200 MB** |  | yes | 2026-11-09 |\n" in written
    with pytest.raises(ValueError, match=r"expected one `<!-- bench:training -->` … .* found 0"):
        write_tables(page.replace("training", "other"), rows, {})


def test_the_page_has_a_place_for_every_figure():
    rows = [Row(figure, 1.0) for figure in FIGURES]
    written = write_tables((ROOT / "docs" / "all_benchmarks.md").read_text(), rows, {})
    assert all(figure.what in written for figure in FIGURES)


def test_the_headlines_are_those_of_the_page_of_all_tables():
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    tables = (ROOT / "docs" / "all_benchmarks.md").read_text()
    assert write_headlines(page, tables, HEADLINES) == page
    assert set(HEADLINES) <= {figure.name for figure in FIGURES}
    empty = write_tables(tables, [Row(figure, 7.0) for figure in FIGURES], {})
    changed = write_headlines(page, empty, HEADLINES)
    assert changed.count("**7.00**") > 10
    assert all(what in changed for what in HEADLINES.values())


def imported_names(source):
    """Yield the modules and names of posemill that a source imports, its embedded scripts too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("posemill"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Constant) and "\nfrom posemill" in str(node.value):
            yield from imported_names(str(node.value))


def test_every_benchmark_can_be_imported_and_finds_what_it_takes_from_us():
    # In a new process: they set the number of threads before they import torch.
    paths = [path for path in FOLDER.rglob("*.py") if ".bench" not in path.parts]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    names = sorted({pair for path in paths for pair in imported_names(path.read_text())})
    assert ("posemill.estimators.holistic", "HolisticEstimator") in names
    script = (
        "import importlib, json, sys\n"
        "modules, names = json.loads(sys.argv[1])\n"
        "for module in modules: importlib.import_module(module)\n"
        "for module, name in names: getattr(importlib.import_module(module), name)\n"
    )
    command = [sys.executable, "-c", script, json.dumps([modules, names])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
