"""`make catalogue`: the Chinese catalogue, brought in step with the sources and compiled.

What is to be translated is read out of the sources: the help of every command, and every sentence
in the modules of `MODULES`. The values of an f-string are `{0}`, `{1}` … in its msgid.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeGuard

from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from posemill.decoders.opening import REASONS
from posemill.language import DOMAIN, FOLDER
from posemill.skeletons import get_skeleton, skeleton_names
from posemill.skeletons.palette import part_label
from posemill.training.loop.timing import PARTS

PACKAGE = Path(__file__).parent.parent / "src" / "posemill"
FILE = FOLDER / "zh_CN" / "LC_MESSAGES" / f"{DOMAIN}.po"
# What the commands of the README print, and the errors one meets first. Files of a stranger that
# are cut or malicious, and graphs of networks, speak English: formats/shared/*, weights/*_graph.py.
MODULES = (
    "commands/*.py", "settings.py", "provenance.py", "plugins.py", "errors.py", "outputs.py",
    "sources/*.py", "decoders/*.py", "decoders/choice/*.py", "clips/*.py", "formats/*.py",
    "formats/shared/contract.py",
    "formats/shared/folders.py", "formats/shared/pixels.py", "runs/manifest.py",
    "runs/lock.py", "runs/reader.py", "runs/frame_index.py", "runs/home.py",
    "places/lease.py", "executors/processes.py",
    "tables.py",
    "machine/disk.py", "machine/gpus.py", "machine/limits.py", "machine/trials.py",
    "inspection/doctor.py", "inspection/decoding.py", "inspection/quality.py",
    "inspection/report/build.py", "inspection/report/findings.py", "inspection/comparison/page.py",
    "web/children.py",
    "estimators/__init__.py", "estimators/declaration.py", "estimators/runtimes/*.py",
    "estimators/face.py", "estimators/hands.py", "estimators/pose.py",
    "estimators/landmarks/body_finder.py", "estimators/landmarks/crop_network.py",
    "estimators/stock_mediapipe.py",
    "estimators/*/engine.py", "estimators/openpose/networks.py", "estimators/wholebody/*.py",
    "weights/pull.py", "weights/packages.py", "weights/npm.py", "weights/wheels.py",
    "jobs/*.py", "jobs/extract/*.py", "jobs/convert/*.py", "jobs/frames/*.py",
    "training/*.py", "training/launch/leave_out.py", "training/launch/rank.py",
    "training/launch/start.py", "training/launch/sweep*.py", "training/loop/*.py",
    "training/config/*.py",
    "training/tuning/*.py", "training/multigrid/*.py", "training/video/problems.py",
    "training/models/backbones.py", "training/models/frames.py", "training/models/space_time.py",
    "training/models/video.py", "training/data/[!d]*.py",
    "training/tasks/workload.py", "training/tasks/*_kind.py",
    "training/record/*.py", "testing/synthetic.py",
    "training/runs/inference.py", "training/runs/figure_samples.py", "training/runs/status.py",
    "web/server.py", "web/actions.py",
)  # fmt: skip
# What is printed out of tables, or put together of them.
WORDS = (
    *PARTS, "one", "several", "model", "media", "ready", "missing", "damaged", "a number",
    "a word", "a video", "a folder", "a run", "a sweep", "measured", "all", "never", "; ",
    "Presence", "Failures", "Jump", "Badness", "good", "fair", "weak", "bad", "setting", "value",
    "{0} cannot be written: {1}; choose another place",
    "{0} is not the folder of a training (no run.json)",
    "{0} has no summary.json: the training has not finished",
    " ({0}--mode video or --mode image overrules it)",
    "{0}, line 1: expected a column 'path', got {1}", *REASONS,
    *(f"{{0!r}}: {reason}: {{1}}" for reason in REASONS),
)  # fmt: skip
_HEADER = "# Chinese words of posemill; make catalogue brings them in step with the sources."
# Words of help and errors, and what the system says.
FOREIGN = (
    "Arguments", "Options", "Commands", "required", "One of: {0}.",
    "Usage: ",
    "No such file or directory", "Permission denied", "No space left on device",
    "Is a directory", "Not a directory",
)  # fmt: skip
_SENTENCE = re.compile(r"[a-z]{2,}[,;:]? [^\W\d_]|[a-z]{2,}[:;,]? [{(]|\}[:;,]? [a-z]{2,}|^; [a-z]")
_WORD = re.compile(r"^(?!.*_)(?=.*[A-Za-z]{2})")
_VALUE, _QUOTED = "{{{}}}", "{{{}!r}}"
# Commands to type, TOML, SQL, versions, lists of names, what others' errors are known by.
_NO_MESSAGE = re.compile(
    r"^\(\[|^<|^--[\w-]+ [\w-]+=|^\$ |^\s*posemill \w* ?\{0\}|--engine-option \{|^# |SELECT |WHERE "
    r"|^ ?--[a-z-]+ (\{0\}|\w+)$|--out \{1\}$|posemill\.fit\(…|^---\n|^ +- split|^INSERT |ORDER BY "
    r"|^import sys|^\{0\} \{1\} ms$|^(onnxruntime|opencv|torch) \{0\}$|^[A-Z]\w+\(\{"
    r"|^\{0\}\(\{1|^(\w+) (error|ERR!|broken|certificate|Volume Information)$"
    r"|^(Failed to \w+|not enough space|No space left|\{task\.description\})$"
    r"|^mp4 m4v|^nose neck|^os error \(|^DataLoader worker$|^can't allocate memory$"
)
# Functions, and which argument of theirs has words: there a single one counts too.
_WORDS = {"print_table": 0, "print_lines": 0, "word": 0, "show_progress": 0, "track": 1}


def find_messages() -> dict[str, str]:
    """Return every msgid with the place it was found at, in order."""
    found: dict[str, str] = {}
    found.update(dict.fromkeys(FOREIGN, "line") | dict.fromkeys(WORDS, "words"))
    for name in skeleton_names():
        found.update((part_label(part), "parts") for part in get_skeleton(name).part_names)
    for text in sorted(_help_texts()):
        found.setdefault(text, "help")
    for pattern in MODULES:
        for path in sorted(PACKAGE.glob(pattern)):
            for text in _sentences(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(text, str(path.relative_to(PACKAGE)))
    return found


def _help_texts() -> Iterator[str]:
    """Yield the help of every command and every flag, as it is translated."""
    from posemill.commands.help_page import ABOUT, default_of
    from posemill.commands.line import load_commands

    commands, groups = load_commands()
    yield from (ABOUT, *groups.values())
    for command in commands.values():
        yield command.help
        for each in command.fields.values():
            yield from filter(None, (each.help, each.group))
            if " " in (default := default_of(each)):
                yield default


def _sentences(tree: ast.Module) -> Iterator[str]:
    skipped = {id(node) for node in ast.walk(tree) for node in _skipped(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        for place in _places_of_words(node):
            yield from (
                text
                for each in ast.walk(place)
                if id(each) not in skipped
                and _WORD.search(text := _text(each))
                and not _NO_MESSAGE.search(text)
            )
        if isinstance(node, ast.Call) and _name(node.func) == "Message":
            text = _text(node.args[0])
            if _WORD.search(re.sub(r"\{\w+(!\w)?(:[^|}]*)?\}", "", text)):
                yield text
        text = _text(node)
        if _SENTENCE.search(text) and not _NO_MESSAGE.search(text):
            yield text


def _name(function: ast.expr) -> str:
    return getattr(function, "id", "") or getattr(function, "attr", "")


def _places_of_words(node: ast.AST) -> Iterator[ast.AST]:
    """Yield where a single word is a message: columns, names of lines, descriptions of bars."""
    if isinstance(node, ast.Call):
        position = _WORDS.get(getattr(node.func, "id", ""))
        yield from node.args[position : position + 1] if position is not None else ()
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if getattr(targets[0], "id", "") == "columns":
            yield node.value


def _skipped(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is no message: docstrings, pieces of f-strings, help (taken from the app)."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        for part in node.values:  # a string inside of a value may be one of its own
            yield part
            if isinstance(part, ast.FormattedValue):
                yield from [part.value] if _is_count(part.value) else []
                yield from ast.walk(part.format_spec) if part.format_spec else []
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        yield from (each for each in sides if not isinstance(each, ast.Call))
    if isinstance(node, ast.Subscript):
        yield from ast.walk(node.slice)
    if isinstance(node, ast.Call):
        is_help = getattr(node.func, "id", "") in ("setting", "Command")
        yield from ast.walk(node) if is_help else node.args[1:] if _is_count(node) else []
    if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
        yield from ast.walk(node.annotation)


def _text(node: ast.AST) -> str:
    """Return the msgid of a string, of an f-string or of a sum with one in it; empty for others."""
    if not (isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)) or _is_count(node)):
        return ""
    pieces = list(_pieces(node))
    if all(piece in (_VALUE, _QUOTED) for piece in pieces):
        return ""
    numbers = itertools.count()
    return "".join(
        piece.format(next(numbers)) if piece in (_VALUE, _QUOTED) else piece for piece in pieces
    )


def _pieces(node: ast.AST) -> Iterator[str]:
    """Yield the letters of a string, and `_VALUE` or `_QUOTED` for what is put into it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from _pieces(part)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
    elif _is_count(node):
        yield from (_VALUE, " ", *_pieces(node.args[1]))
    elif isinstance(node, ast.FormattedValue) and _is_count(node.value):
        yield from _pieces(node.value)
    else:
        is_quoted = isinstance(node, ast.FormattedValue) and node.conversion == ord("r")
        yield _QUOTED if is_quoted else _VALUE


def _is_count(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return True for `counted(number, "clips")`, which says `{0} clips`."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "counted"


def update() -> list[str]:
    """Bring the file in step with the sources, compile it, and return what lacks a translation."""
    with FILE.open("rb") as file:
        old = read_po(file)
    day = datetime(2026, 1, 1, tzinfo=timezone.utc)  # the same file from the same sources
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
    if missing := update():
        sys.exit("no translation yet:\n" + "\n".join(missing))
