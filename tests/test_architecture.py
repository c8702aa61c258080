"""The walk in docs/architecture.md names files and functions: all of them must exist."""

import ast
import re
from pathlib import Path

import pytest

import posemill

PACKAGE = Path(posemill.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
# `path/to/file.py`: `function`, `Class.method`
HOP = re.compile(r"`([\w/]+\.py)`: (`[\w.]+`(?:, `[\w.]+`)*)")


def walk_of(page):
    """The part of the page that is the walk."""
    return page.partition("## How a frame travels")[2].partition("\n## ")[0]


def hops(page):
    """Every file of the walk with every name said to be in it."""
    return [(path, name) for path, names in HOP.findall(walk_of(page))
            for name in re.findall(r"`([\w.]+)`", names)]  # fmt: skip


def names_in(source):
    """Functions, classes and `Class.method` of a module, by its text: nothing is imported."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef)
            }
    return found


HOPS = hops(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("path", "name"), HOPS, ids=[f"{path}:{name}" for path, name in HOPS])
def test_every_hop_of_the_walk_exists(path, name):
    file = PACKAGE / path
    assert file.is_file(), f"docs/architecture.md names {path}: it was moved or renamed"
    names = names_in(file.read_text(encoding="utf-8"))
    assert name in names, f"docs/architecture.md names {name} in {path}, which has {sorted(names)}"


def test_the_walk_goes_from_a_file_to_a_checkpoint_and_no_path_is_left_unchecked():
    walk = walk_of(PAGE.read_text(encoding="utf-8"))
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", walk, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    extraction = walk.partition("### `posemill prepare`")[0]
    assert len(re.findall(r"^\| \d+ \|", extraction, re.M)) <= 12
    assert ("sources/__init__.py", "find_clips") in HOPS
    assert ("training/record/checkpoints.py", "CheckpointFolder.save") in HOPS
    written = re.findall(r"`([\w/]+\.py)`", walk.replace("`tests/test_architecture.py`", ""))
    assert sorted(written) == sorted(path for path, _ in HOP.findall(walk))


def test_a_name_that_is_gone_is_seen():
    page = "## How a frame travels\n| 1 | `a.py`: `f`, `C.m` | text |\n\n## Rules\n`b.py`: `g`"
    assert hops(page) == [("a.py", "f"), ("a.py", "C.m")]
    assert names_in("def f(): ...\nclass C:\n  def n(self): ...") == {"f", "C", "C.n"}
