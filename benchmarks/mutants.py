"""How many small faults the tests notice: a random sample of mutants of `src/posemill`.

    python -m benchmarks.mutants [--number 100] [--seed 1] [--folder NAME …] [--workers 2] [--json]

A mutant is the package with one thing changed: an operator, a comparison, a constant, a boolean, a
condition, a call that is left out, or what a function returns. Docstrings, annotations, texts for
people (what is raised, logged, shown as help) and f-strings are left alone. For each mutant the
tests run in a copy of the tree, without the material beside it (`../shared`): first the mirrored
file, `tests/<folder>/test_<module>.py`, then all that run the line, the cheapest first, at last
those that import the module and the rest of the mirrored folder; all stop at the first failure. A
failure counts if the same test passes without the mutant; a test that hangs fails by its time
limit. Which tests run which lines is recorded by one run of the whole suite, when it is first asked
for; `--lines FOLDER` keeps the recording for further samples of the same tree.

Prints noticed / valid by folder, and the diff of every survivor. Some survivors are equivalent (a
log line, only slower): they are for the reader to judge, none is hidden.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from benchmarks.shared.covered_lines import Recording

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/posemill")
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "demo", "dist")
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.MatMult: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
TEXT_KEYWORDS = {"help", "metavar", "epilog", "short_help", "description", "title", "advice"}
TEXT_CALLS = {"debug", "info", "warning", "error", "exception", "echo", "secho", "print",
              "warn", "_say", "fail", "Option", "Argument", "getLogger", "TypeVar"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: characters `start` to `stop` of a file become `text`."""

    path: str
    line: int
    kind: str
    start: int
    stop: int
    text: str

    @property
    def folder(self) -> str:
        """The folder of the package it is in; `.` for the root modules."""
        return folder_of(self.path)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the test that noticed it, nothing if it survived."""

    mutant: Mutant
    noticed_by: str
    diff: str


def folder_of(path: str) -> str:
    """Return the folder of the package that a file is in; `.` for the root modules."""
    parts = Path(path).relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "."


def find_mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file; some may be no valid Python, or the same program."""
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    lines = source.splitlines()

    def place(line: int, column: int) -> int:  # ast counts columns in UTF-8 bytes
        return offsets[line - 1] + len(lines[line - 1].encode()[:column].decode())

    found = []
    for node, kind, text in _changes(ast.parse(source)):
        start = place(node.lineno, node.col_offset)
        stop = place(node.end_lineno or 0, node.end_col_offset or 0)
        found.append(Mutant(path, node.lineno, kind, start, stop, text))
    return found


def is_valid(mutant: Mutant, source: str) -> bool:
    """Return whether a mutant is valid Python and another program."""
    try:
        changed = ast.parse(mutated(source, mutant))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))


def mutated(source: str, mutant: Mutant) -> str:
    """Return the source with the change made."""
    return source[: mutant.start] + mutant.text + source[mutant.stop :]


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield what can be changed below a node: what is replaced, the kind, the new text."""
    yield from _other_operators(node)
    yield from _other_values(node)
    for child in _children(node):
        yield from _changes(child)


def _other_operators(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    match node:
        case ast.BinOp(left, op, right):
            yield node, "operator", f"({_text(ast.BinOp(left, SWAPS[type(op)](), right))})"
        case ast.AugAssign(target, op, value):
            yield node, "operator", _text(ast.AugAssign(target, SWAPS[type(op)](), value))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, "operator", f"({_text(operand)})"
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                others = [*ops[:index], SWAPS[type(op)](), *ops[index + 1 :]]
                yield node, "comparison", f"({_text(ast.Compare(left, others, comparators))})"
        case ast.BoolOp(op, values):
            yield node, "boolean", f"({_text(ast.BoolOp(SWAPS[type(op)](), values))})"


def _other_values(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    match node:
        case ast.Constant(bool(value)):
            yield node, "boolean", str(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, "constant", repr(value + 1)
        case ast.Constant(str(value)) if re.fullmatch(r"[\w.-]+", value):
            yield node, "constant", repr(value + "_")
        case ast.If(test) | ast.IfExp(test) | ast.While(test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr | ast.Subscript
        ):
            yield test, "condition", f"(not ({_text(test)}))"
        case ast.Expr(ast.Call()):
            yield node, "call left out", "pass"
        case ast.Return(ast.expr() as value) if not _is_empty(value):
            yield value, "return", "None"


def _is_empty(value: ast.expr) -> bool:
    """Return whether nothing instead would be as good: False, 0, an empty text or collection."""
    return ast.unparse(value) in ("False", "None", "0", "''", "[]", "()", "{}")


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below that are program: no annotation, no docstring, no text for people."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_for_people(node, child):
                yield child


def _is_for_people(node: ast.AST, child: ast.AST) -> bool:
    if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
        return True  # a docstring
    if isinstance(child, ast.If) and "TYPE_CHECKING" in _text(child.test):
        return True
    if isinstance(child, ast.Assign) and _text(child.targets[0]) == "__all__":
        return True
    if isinstance(child, ast.keyword) and child.arg in TEXT_KEYWORDS:
        return True
    return isinstance(node, ast.Call) and _text(node.func).rpartition(".")[2] in TEXT_CALLS


def _text(node: ast.AST) -> str:
    return ast.unparse(node).replace("\n", " ")


def tests_of(tree: Path, path: str) -> list[list[str]]:
    """Return the stages of a module's tests: its own file, those that import it, the folder's."""
    relative = Path(path).relative_to(PACKAGE)
    module = relative.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    own = Path("tests") / relative.parent / f"test_{relative.stem}.py"
    folder = tree / "tests" / relative.parent
    if relative.stem == "__init__" or not (tree / own).exists():
        while not any(folder.glob("test_*.py")):
            folder = folder.parent
    package, _, name = f"posemill.{module}".rpartition(".")
    wanted = re.compile(
        rf"posemill\.{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b"
    )
    importing = [name for name, text in _test_texts(tree).items() if wanted.search(text)]
    beside = [found.relative_to(tree).as_posix() for found in sorted(folder.glob("test_*.py"))]
    stages, seen = [], set[str]()
    for stage in ([own.as_posix()] if (tree / own).exists() else [], importing, beside):
        fresh = [name for name in stage if name not in seen]
        seen.update(fresh)
        if fresh:
            stages.append(fresh)
    return stages


@cache
def _test_texts(tree: Path) -> dict[str, str]:
    found = sorted((tree / "tests").rglob("test_*.py"))
    return {path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8") for path in found}


class Trial:
    """Runs tests on mutants, in copies of a tree that stays as it is."""

    def __init__(
        self,
        tree: Path,
        python: Path,
        *,
        num_copies: int,
        limit_seconds: float,
        files_that_run: Callable[[str, int], list[str]],
    ) -> None:
        self._tree = tree
        self._files_that_run = files_that_run
        durations = tree / "tests" / "durations.json"
        self._seconds = json.loads(durations.read_text()) if durations.exists() else {}
        self._python = python
        self._limit_seconds = limit_seconds
        self._passes: dict[tuple[str, ...], bool] = {}
        self._lock = Lock()
        self._copies: SimpleQueue[Path] = SimpleQueue()
        for index in range(num_copies):
            self._copies.put(shutil.copytree(tree, tree.parent / f"copy{index}"))

    def run(self, mutant: Mutant) -> Verdict:
        """Return what became of a mutant."""
        copy = self._copies.get()
        path = copy / mutant.path
        source = (self._tree / mutant.path).read_text(encoding="utf-8")
        changed = mutated(source, mutant)
        path.write_text(changed, encoding="utf-8")
        # Bytecode of a mutant as long that was tried in the same second would pass for this one's.
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        try:
            noticed_by = self._noticed_by(copy, mutant)
        finally:
            path.write_text(source, encoding="utf-8")
            self._copies.put(copy)
        return Verdict(mutant, noticed_by, _diff(mutant, source, changed))

    def _noticed_by(self, copy: Path, mutant: Mutant) -> str:
        """Return the test that fails with the mutant and passes without, or nothing."""
        for stage in self._stages(mutant):
            broken: list[str] = []
            while (failed := self._failed(copy, stage, broken)) is not None:
                if self._passes_without(tuple(failed)):
                    return " ".join(failed)
                if failed == stage or failed[0] in broken:
                    break
                broken += failed
        return ""

    def _stages(self, mutant: Mutant) -> Iterator[list[str]]:
        """Yield the tests that may notice a mutant, the likeliest and cheapest first."""
        mirrored = [*chain(*tests_of(self._tree, mutant.path))]
        with self._lock:
            running = self._files_that_run(mutant.path, mutant.line)
        by_cost = sorted(running, key=lambda name: self._seconds.get(name, 0.0))
        seen = set[str]()
        # The last ones may still run the line in a process of their own.
        for names in (mirrored[:1], by_cost, mirrored):
            stage = [name for name in names if name not in seen]
            seen.update(stage)
            if stage:
                yield stage

    def _failed(self, copy: Path, stage: list[str], without: list[str]) -> list[str] | None:
        """Return the first test that fails, the whole stage if it hangs, None if all pass."""
        code, output = self._pytest(copy, [*stage, *(f"--deselect={name}" for name in without)])
        if code in (0, 5):  # all passed, or all were skipped
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        return [failed[1]] if failed else stage

    def _passes_without(self, tests: tuple[str, ...]) -> bool:
        with self._lock:
            if tests not in self._passes:
                self._passes[tests] = self._pytest(self._tree, list(tests))[0] in (0, 5)
                if not self._passes[tests]:
                    print(f"fails without a mutant too: {' '.join(tests)}", file=sys.stderr)
            return self._passes[tests]

    def _pytest(self, tree: Path, arguments: list[str]) -> tuple[int, str]:
        """Return pytest's exit code, -1 if it hangs, and what it said."""
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-o", "timeout=90"]
        process = subprocess.Popen(
            [self._python, "-m", "pytest", *options, *arguments],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,  # with all it has started, it can be ended
        )
        try:
            output, _ = process.communicate(timeout=self._limit_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return -1, ""
        return process.returncode, output


def _diff(mutant: Mutant, source: str, changed: str) -> str:
    last = source.count("\n", 0, mutant.stop) + 1
    more = changed.count("\n") - source.count("\n")
    old = source.splitlines()[mutant.line - 1 : last]
    new = changed.splitlines()[mutant.line - 1 : last + more]
    return "\n".join([*(f"- {line}" for line in old), *(f"+ {line}" for line in new)])


def draw(tree: Path, number: int, seed: int, folders: list[str]) -> list[Mutant]:
    """Return a random sample with as many of each kind: the same for the same tree and options."""
    paths = sorted(path.relative_to(tree).as_posix() for path in (tree / PACKAGE).rglob("*.py"))
    # `testing` holds tests, for other packages: what they notice is counted, not they.
    every = {folder_of(path) for path in paths} - {"testing"}
    chosen = [path for path in paths if folder_of(path) in (folders or every)]
    sources = {path: (tree / path).read_text(encoding="utf-8") for path in chosen}
    wanted = [mutant for path in chosen for mutant in find_mutants(path, sources[path])]
    random.Random(seed).shuffle(wanted)
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in wanted:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    in_turns = (mutant for row in zip_longest(*by_kind.values()) for mutant in row if mutant)
    return list(islice((each for each in in_turns if is_valid(each, sources[each.path])), number))


def print_table(verdicts: list[Verdict]) -> None:
    """Print noticed / valid by folder, and what survived."""
    valid = Counter(verdict.mutant.folder for verdict in verdicts)
    noticed = Counter(verdict.mutant.folder for verdict in verdicts if verdict.noticed_by)
    for verdict in verdicts:
        if not verdict.noticed_by:
            mutant = verdict.mutant
            print(f"\n{mutant.path}:{mutant.line}  {mutant.kind}\n{verdict.diff}")
    print(f"\n{'folder':12s} noticed / valid")
    for folder in sorted(valid):
        share = noticed[folder] / valid[folder]
        print(f"{folder:12s} {noticed[folder]:4d} / {valid[folder]:<4d}  {share:4.0%}")
    share = noticed.total() / valid.total()
    print(f"{'all':12s} {noticed.total():4d} / {valid.total():<4d}  {share:4.0%}")


def main() -> None:
    """Draw, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", nargs="+", default=[], help="stores, training, …; . = root")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit-seconds", type=float, default=600, help="for a stage of tests")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument(
        "--lines", type=Path, help="folder of the recording, kept for the next time"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        # A copy, so that the tree may change meanwhile.
        tree = shutil.copytree(ROOT, Path(scratch) / "tree", ignore=NOT_COPIED)
        sample = draw(tree, options.number, options.seed, options.folder)
        folder = (options.lines or Path(scratch) / "lines").absolute()
        recording = cache(partial(Recording, tree, folder, options.python))
        trial = Trial(
            tree,
            options.python,
            num_copies=options.workers,
            limit_seconds=options.limit_seconds,
            files_that_run=lambda path, line: recording().files_that_run(path, line),
        )
        with ThreadPoolExecutor(options.workers) as pool:
            for done in as_completed([pool.submit(trial.run, mutant) for mutant in sample]):
                verdict = done.result()
                verdicts.append(verdict)
                mutant = verdict.mutant
                said = verdict.noticed_by or f"SURVIVED\n{verdict.diff}"
                print(f"{len(verdicts)}/{len(sample)} {mutant.path}:{mutant.line} {mutant.kind}: "
                      f"{said}", file=sys.stderr)  # fmt: skip
    if options.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    else:
        print_table(verdicts)


if __name__ == "__main__":
    main()
