"""Commands that messages name can be pasted into a shell, whatever a folder is called."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import posemill
from posemill.terminal import quoted

SOURCE = Path(posemill.__file__).parent
COMMANDS = "|".join(
    "advise compare evaluate export extract frames import landmarks logs merge predict prepare "
    "report serve status stop train tune view visualize".split()
)
# `posemill status `, `posemill export RUN --out `: a path comes next.
BEFORE_PATH = re.compile(rf"posemill ({COMMANDS}) ([A-Z_]+ )*(--out )?$")
QUOTING = ("quoted", "shlex.quote")


def unquoted_values(tree: ast.AST) -> list[int]:
    """Return the lines of f-strings that put a bare value behind a command."""
    lines = []
    names = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_quoting_call(node.value)
        for target in node.targets
    }
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        written = ""
        for piece in text.values:
            if isinstance(piece, ast.Constant):
                written += str(piece.value)
                continue
            assert isinstance(piece, ast.FormattedValue)
            is_quoted = is_quoting_call(piece.value) or ast.unparse(piece.value) in names
            if BEFORE_PATH.search(written) and not is_quoted:
                lines.append(piece.lineno)
            written += "VALUE"
    return lines


def is_quoting_call(value: ast.expr) -> bool:
    """Return whether a value is the result of what quotes for the shell."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in QUOTING


def test_every_value_in_a_command_of_a_message_is_quoted_for_the_shell():
    bare = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in unquoted_values(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert bare == []


def test_the_check_notices_a_bare_value():
    assert unquoted_values(ast.parse('f"look: posemill status {run} --failures"')) == [1]
    assert unquoted_values(ast.parse('f"look: posemill status {quoted(run)}"')) == []
    assert unquoted_values(ast.parse('f"posemill: {error}"')) == []


def test_a_path_with_blanks_stays_one_word():
    assert quoted(Path("my runs/a")) == "'my runs/a'"
    assert quoted("runs/first") == "runs/first"
