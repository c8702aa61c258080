"""`make catalogue`: the Chinese catalogue, brought in step with the sources and compiled.

What is to be translated is read out of the sources: the help of every command, and the template of
every message. A template is a literal: the first argument of `Message`, `say` or an error, or of
another function of `_CALLS`. A name or a row of a table in its place stands for the literals that
the module assigns to it.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from posemill.decoders.opening import REASONS
from posemill.estimators import ESTIMATORS, engine_infos
from posemill.language import DOMAIN, FOLDER
from posemill.skeletons import get_skeleton, skeleton_names
from posemill.skeletons.palette import part_label
from posemill.sources import LAYOUTS
from posemill.sources.tracking import NOT_ALIKE, NOT_NUMBERED, ONE_PICTURE, SIZES_DIFFER
from posemill.training.loop.timing import PARTS

PACKAGE = Path(__file__).parent.parent / "src" / "posemill"
FILE = FOLDER / "zh_CN" / "LC_MESSAGES" / f"{DOMAIN}.po"
# Damaged or malicious files of a stranger and graphs of networks are described in English.
ENGLISH = (
    "npz/*.py", "formats/shared/pickles.py",
    "weights/*_*.py", "weights/networks.py", "weights/rewrites.py", "weights/catalogue.py",
)  # fmt: skip
# Words of help, of tables that are printed, and what the system says.
WORDS = (
    "Arguments", "Options", "Commands", "required", "Usage: ", "; ", ", ", ": ",
    *PARTS, *REASONS, *LAYOUTS.values(), SIZES_DIFFER, NOT_NUMBERED, NOT_ALIKE, ONE_PICTURE,
    "good", "fair", "weak", "bad", "value", "an unknown host", "an unknown time",
    "the folder holds no pictures", "expected a folder of frames",
    "there are no pictures at this place", "cores this process may use",
    "a worker's share of the memory",
    "one", "several", "model", "media", "ready", "missing", "damaged", "a folder", "a run",
    "measured", "all", "never", "a number", "a whole number", "a word", "an object",
    "true or false", "No such file or directory", "Permission denied", "No space left on device",
    "Is a directory", "Not a directory", "a picture", "loss", "accuracy", "wer", "num_clips",
    "num_unreadable", "all in order", "8 of them", "32 of them",
)  # fmt: skip
# Functions, and which argument of theirs is a template or a list of words; errors have it first.
_CALLS = {
    "Message": 0, "say": 0, "say_line": 0, "translate": 0, "print_table": 0, "print_lines": 0,
    "show_progress": 0, "track": 1, "_bar": 0, "Failed": 0, "raise_decode_error": 1,
}  # fmt: skip
# A string with a hole and words of its own is a template wherever it stands.
_HOLE = r"\{(?:--)?[a-z]\w*[^{}]*\}"
_TEMPLATE = re.compile(
    rf"\A(?!#)(?:.*{_HOLE}.* [a-z]{{2,}}|.*[a-z]{{2,}}[:;,]? .*{_HOLE}).*", re.DOTALL
)
_LETTERS = re.compile(r"[^\W\d_]{2}")
_HOLES = re.compile(r"\{[^{}|]*\}")
_HEADER = "# Chinese words of posemill; make catalogue brings them in step with the sources."


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a source file, read once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def find_messages() -> dict[str, str]:
    """Return every msgid with the place it was found at, in order."""
    found = dict.fromkeys(WORDS, "words")
    for name in skeleton_names():
        found.update((part_label(part), "parts") for part in get_skeleton(name).part_names)
    for text in sorted({*_help_texts(), *_engine_texts()}):
        found.setdefault(text, "help")
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not any(Path(place).match(pattern) for pattern in ENGLISH):
            for text in templates(tree_of(path)):
                found.setdefault(text, place)
    return found


def _help_texts() -> Iterator[str]:
    """Yield the help of every command and every flag, as it is translated."""
    from posemill.commands.help_page import ABOUT, default_of
    from posemill.commands.line import load_commands

    commands, groups = load_commands()
    yield from (ABOUT, *groups.values())
    for command in commands.values():
        yield command.help
        for field in command.fields.values():
            yield from filter(None, (field.help, field.group))
            if " " in (default := default_of(field)):
                yield default


def _engine_texts() -> Iterator[str]:
    """Yield what `posemill engines` says of our engines and their options."""
    for name, info in engine_infos().items():
        if name in ESTIMATORS:
            about = info.to_dict()
            yield about["summary"]
            for option in about["options"]:
                yield option["help"]


def templates(tree: ast.Module) -> Iterator[str]:
    """Yield the templates of a module."""
    nodes = list(ast.walk(tree))
    values: dict[str, list[ast.expr]] = {}  # what the module assigns to each name
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                values.setdefault(ast.unparse(target), []).append(node.value)
    for node in nodes:
        if isinstance(node, ast.Call):
            for argument in arguments(node):
                texts = _literals(argument, values)
                yield from (text for text in texts if _LETTERS.search(_HOLES.sub("", text)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    in_f_strings = {id(n) for node in nodes if isinstance(node, ast.JoinedStr) for n in node.values}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings | in_f_strings:
            yield from _TEMPLATE.findall(str(node.value))


def arguments(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are templates or words."""
    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
    is_error = name.endswith("Error") and not hasattr(builtins, name)
    position = 0 if is_error else _CALLS.get(name)
    if position is not None:
        yield from call.args[position : position + 1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "reason")


def _literals(node: ast.AST, values: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the strings that an expression can be, or that a list or a table of it has."""
    parts: list[ast.expr] = []
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            parts = [node.body, node.orelse]
        case ast.List() | ast.Tuple():
            parts = [_first(element) for element in node.elts]
        case ast.GeneratorExp() | ast.ListComp():
            parts = [_first(node.elt)]
        case ast.Dict():
            parts = node.values
        case ast.Starred() | ast.Subscript():
            parts = [node.value]
        case ast.Call(func=ast.Attribute(attr="get", value=table)):
            parts = [table, *node.args[1:]]
        case ast.Name():
            values = dict(values)
            parts = values.pop(node.id, [])
    for part in parts:
        yield from _literals(part, values)


def _first(node: ast.expr) -> ast.expr:
    """Return the name of a (name, value) pair; others as they are."""
    return node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node


def update() -> list[str]:
    """Bring the file in step with the sources, compile it, and return what lacks a translation."""
    with FILE.open("rb") as file:
        old = read_po(file)
    day = datetime(2026, 1, 1, tzinfo=UTC)  # the same file from the same sources
    new = Catalog(
        locale="zh_CN", domain=DOMAIN, header_comment=_HEADER, project="posemill", version="0",
        msgid_bugs_address="-", last_translator="The posemill authors", language_team="zh_CN",
        creation_date=day, revision_date=day, fuzzy=False,
    )  # fmt: skip
    for msgid, place in find_messages().items():
        known = old.get(msgid)
        new.add(msgid, known.string if known else "", auto_comments=[place])
    with FILE.open("wb") as file:
        write_po(file, new, width=100, omit_header=False)
    FILE.with_suffix(".mo").write_bytes(compiled(new))
    return [str(message.id) for message in new if message.id and not message.string]


def compiled(catalogue: Catalog) -> bytes:
    """Return what gettext reads."""
    buffer = io.BytesIO()
    write_mo(buffer, catalogue)
    return buffer.getvalue()


if __name__ == "__main__":
    if FOLDER.resolve().parent != PACKAGE.resolve():
        sys.exit(f"posemill is imported from {FOLDER.parent}, not from {PACKAGE}: set PYTHONPATH")
    if missing := update():
        sys.exit("no translation yet:\n" + "\n".join(missing))
