"""The counter of mutants: which faults it makes, where it makes none, which tests it runs."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATH = "src/posemill/geometry.py"


@pytest.fixture(scope="module")
def mutants() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module("mutants")
    finally:
        sys.path.pop(0)


def changed(mutants: Any, source: str) -> set[str]:
    """Every other program that is made of a source, as Python spells it."""
    found = [each for each in mutants.find_mutants(PATH, source) if mutants.is_valid(each, source)]
    return {ast.unparse(ast.parse(mutants.mutated(source, each))) for each in found}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", {"x = a - b"}),
        ("x = a < b <= c", {"x = a <= b <= c", "x = a < b < c"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = True", {"x = False"}),
        ("x = 3", {"x = 4"}),
        ("x = 'left'", {"x = 'left_'"}),
        ("x += y", {"x -= y"}),
        ("f(x)", {"pass"}),
        ("if a: f = b", {"if not a:\n    f = b"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("é = '手' + a  # ü", {"é = '手_' + a", "é = '手' - a"}),  # columns are bytes
    ],
)
def test_each_kind_of_fault_is_one_change(mutants: Any, source: str, expected: set[str]) -> None:
    assert changed(mutants, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "def f(a: Literal['x']) -> Literal['y']: ...",
        "if TYPE_CHECKING:\n    x = 1",
        "raise ValueError('expected 3', 4)",
        "x = f'{a + b} of {3}'",
        "x = 'a message for people'",
        "x = g(help='word')",
        "def f():\n    return []",
        "import a",
    ],
)
def test_texts_and_types_are_left_alone(mutants: Any, source: str) -> None:
    assert changed(mutants, source) == set()


def test_the_mirrored_tests_come_first_and_then_those_that_import(mutants: Any) -> None:
    stages = mutants.tests_of(ROOT, "src/posemill/runs/lock.py")
    assert stages[0] == ["tests/runs/test_lock.py"]
    assert "tests/jobs/extract/test_status.py" in stages[1]
    assert "tests/runs/test_run.py" in stages[2]
    named = [name for stage in stages for name in stage]
    assert len(set(named)) == len(named)
    (alone, *_) = mutants.tests_of(ROOT, "src/posemill/geometry.py")
    assert alone == ["tests/test_geometry.py"]


def test_a_sample_is_the_same_for_the_same_seed(mutants: Any) -> None:
    one, same = (mutants.draw(ROOT, 7, 1, ["executors"]) for _ in range(2))
    assert one == same
    assert {each.folder for each in one} == {"executors"}
    assert len({each.kind for each in one}) == 7  # as many of each kind


def test_a_fault_is_noticed_by_the_test_that_fails_and_only_by_it(
    mutants: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree of one module and one test, which fails with one of two mutants."""
    # No plugins of pytest but the one that is needed: its processes start sooner.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_timeout")
    tree = tmp_path / "tree"
    (tree / "src" / "posemill").mkdir(parents=True)
    (tree / "tests").mkdir()
    (tree / "src" / "posemill" / "__init__.py").touch()
    source = "def double(x):\n    unused = 1\n    return x * 2\n"
    (tree / "src" / "posemill" / "sums.py").write_text(source)
    (tree / "tests" / "test_sums.py").write_text(
        "from posemill.sums import double\n\n\n"
        "def test_broken():\n    assert double(1) == 5\n\n\n"
        "def test_double():\n    assert double(3) == 6\n"
    )
    trial = mutants.Trial(tree, Path(sys.executable), 1, 120.0)
    verdicts = {
        each.text: trial.run(each)
        for each in mutants.find_mutants("src/posemill/sums.py", source)
        if each.kind == "operator" or each.line == 2
    }
    assert verdicts["(x / 2)"].noticed_by == "tests/test_sums.py::test_double"
    assert verdicts["(x / 2)"].diff == "-     return x * 2\n+     return (x / 2)"
    survivor = next(each for each in verdicts.values() if each.mutant.line == 2)
    assert survivor.noticed_by == ""
