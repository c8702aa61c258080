"""Which test files run which lines of posemill: a recording of the whole suite.

`pytest -p benchmarks.shared.covered_lines` takes part of it, in the folder that the variable
`POSEMILL_LINES` names; what other processes do that a test starts is not seen.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import coverage
import pytest

FOLDER = "POSEMILL_LINES"  # a variable of the environment


class LineRecorder:
    """Notes the lines that each test file runs in this process."""

    def __init__(self, folder: Path) -> None:
        self._pid = os.getpid()
        self._coverage = coverage.Coverage(
            data_file=str(folder / f"lines.{self._pid}"),
            source_pkgs=["posemill"],
            config_file=False,
            messages=False,
        )
        self._coverage.set_option("run:relative_files", True)
        # A shard may have loaded the package before; tests turn the warning of it into an error.
        self._coverage.set_option("run:disable_warnings", ["module-not-measured"])
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note what follows for the file of the test."""
        if self._pid == os.getpid():
            self._coverage.switch_context(nodeid.partition("::")[0])

    def pytest_sessionfinish(self) -> None:
        """Write the notes; a copy of the process, made by a test, has none of its own."""
        if self._pid == os.getpid():
            self._coverage.stop()
            self._coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process of a shard."""
    if FOLDER in os.environ:
        config.pluginmanager.register(LineRecorder(Path(os.environ[FOLDER])))


class Recording:
    """A recording of the tests of a tree; made by `record`, or read where it is there."""

    def __init__(self, tree: Path, folder: Path, python: Path = Path(sys.executable)) -> None:
        self._tree = tree
        self._data = coverage.CoverageData(str(folder / "all"))
        if not (folder / "all").exists():
            folder.mkdir(exist_ok=True)
            self._record(folder, python)
        self._data.read()

    def _record(self, folder: Path, python: Path) -> None:
        """Run the whole suite; tests that fail without any mutant are recorded too."""
        environment = {
            **os.environ,
            FOLDER: str(folder),
            "PYTEST_ADDOPTS": "-p benchmarks.shared.covered_lines",
            "PYTHONPATH": os.pathsep.join([str(self._tree / "src"), str(self._tree)]),
        }
        command = [str(python), "-m", "tools.shards"]
        subprocess.run(command, cwd=self._tree, env=environment, stdout=sys.stderr, check=False)
        for part in sorted(folder.glob("lines.*")):
            data = coverage.CoverageData(str(part))
            data.read()
            self._data.update(data)
        self._data.write()

    def files_that_run(self, path: str, line: int) -> list[str]:
        """Return the test files that run a line, or for a line of no function, its module."""
        lines = self._data.contexts_by_lineno(path)
        first, last = statement_of((self._tree / path).read_text(encoding="utf-8"), line)
        names = {name for at, names in lines.items() if first <= at <= last for name in names}
        return sorted(names - {""})


def statement_of(source: str, line: int) -> tuple[int, int]:
    """Return the first and last line of the statement a line is part of; of all for a constant.

    A table of a module runs when it is imported, by whichever test comes first: all tests that run
    something of the module may notice that it is wrong.
    """
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0)]
    if not around:
        return 1, source.count("\n") + 1
    statements = [
        node
        for node in ast.walk(around[-1])
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    innermost = min(statements, key=lambda node: (node.end_lineno or 0) - node.lineno)
    return innermost.lineno, innermost.end_lineno or line
