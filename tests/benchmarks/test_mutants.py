"""The counter of mutants: which faults it makes, where it makes none, which tests it runs."""

import ast
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.shared import covered_lines

ROOT = Path(__file__).parents[2]
PATH = "src/posemill/geometry.py"


@pytest.fixture(scope="module")
def mutants():
    return import_module("benchmarks.mutants")


def changed(mutants, source):
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
        # Texts and types are left alone.
        ('"""A docstring of 3 words."""', set()),
        ("def f(a: Literal['x']) -> Literal['y']: ...", set()),
        ("if TYPE_CHECKING:\n    x = 1", set()),
        ("raise ValueError('expected 3', 4)", set()),
        ("x = f'{a + b} of {3}'", set()),
        ("x = 'a message for people'", set()),
        ("x = g(help='word')", set()),
        ("def f():\n    return []", set()),
        ("import a", set()),
    ],
)
def test_each_kind_of_fault_is_one_change_of_what_is_no_text_or_type(mutants, source, expected):
    assert changed(mutants, source) == expected


SUMS = """
def double(x):
    unused = 1
    return x * 2


def four():
    return 2 + 2
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of one module and its test, one test of which fails, and another test elsewhere."""
    # No plugins of pytest but the one that is needed: its processes start sooner.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_timeout")
    tree = tmp_path / "tree"
    for name, text in {
        "pytest.ini": "",  # else one of a folder above would count
        "src/posemill/__init__.py": "",
        "src/posemill/sums.py": SUMS,
        "tests/test_sums.py": "from posemill.sums import double\n\n\n"
        "def test_broken():\n    assert double(1) == 5\n\n\n"
        "def test_double():\n    assert double(3) == 6\n",
        "tests/far/test_four.py": "import posemill\n\n\n"
        "def test_four():\n    from posemill import sums as numbers\n\n"
        "    assert numbers.four() == 4\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def test_a_fault_is_noticed_by_the_test_that_fails_and_only_by_it(mutants, tree):
    trial = mutants.Trial(
        tree,
        Path(sys.executable),
        num_copies=1,
        limit_seconds=120.0,
        files_that_run=lambda path, line: ["tests/far/test_four.py"] if line == 8 else [],
    )
    verdicts = {
        each.text: trial.run(each)
        for each in mutants.find_mutants("src/posemill/sums.py", SUMS)
        if each.kind == "operator" or each.line == 3
    }
    assert verdicts["(x / 2)"].noticed_by == "tests/test_sums.py::test_double"
    assert verdicts["(x / 2)"].diff == "-     return x * 2\n+     return (x / 2)"
    assert verdicts["(2 - 2)"].noticed_by == "tests/far/test_four.py::test_four"
    assert next(each for each in verdicts.values() if each.mutant.line == 3).noticed_by == ""


def test_a_recording_says_which_test_files_run_a_line(tree, tmp_path):
    shutil.copytree(ROOT / "tools", tree / "tools")
    (tree / "benchmarks" / "shared").mkdir(parents=True)
    shutil.copy(ROOT / "benchmarks/shared/covered_lines.py", tree / "benchmarks/shared")
    recording = covered_lines.Recording(tree, tmp_path / "lines")
    path = "src/posemill/sums.py"
    assert recording.files_that_run(path, 4) == ["tests/test_sums.py"]
    assert recording.files_that_run(path, 8) == ["tests/far/test_four.py"]
    assert recording.files_that_run(path, 5) == ["tests/far/test_four.py", "tests/test_sums.py"]
    again = covered_lines.Recording(tree, tmp_path / "lines")  # read, not made again
    assert again.files_that_run(path, 8) == ["tests/far/test_four.py"]
