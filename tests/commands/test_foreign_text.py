"""Ids, splits and file names come from data: whatever is in them, no command obeys it."""

import ast
import json
from pathlib import Path

import pytest
from cli_runner import call
from made_up_people import make_person, write_run

import posemill.commands
from posemill.commands.line import main
from posemill.commands.progress import ProgressView, show_progress
from posemill.jobs.extract.status import Progress
from posemill.runs.manifest import LOGS_NAME
from posemill.runs.queries import Failure, SplitCounts
from posemill.terminal import printable

EVIL = "a\x1b]0;owned\x07\x9b2J\u202egnp.\x08"
HARMLESS = "a?]0;owned??2J?gnp.?"


@pytest.fixture
def run(tmp_path):
    """A run whose ids, splits, reasons and log all command the terminal."""
    failure = Failure(f"{EVIL}\nposemill: all well", EVIL, None, 1, EVIL, EVIL, EVIL)
    clip = make_person(2, clip_id=EVIL, split=EVIL)
    run = write_run(tmp_path / "run", clip, failures=[failure])
    (run / LOGS_NAME).mkdir(exist_ok=True)
    (run / LOGS_NAME / "coordinator.log").write_text(f"{EVIL}\n", encoding="utf-8")
    return run


def commands(run):
    out = str(run.parent)
    return [
        ["status", str(run), "--failures"],
        ["logs", str(run)],
        ["view", str(run)],
        ["export", str(run), "--to", "npz", "--out", f"{out}/x.npz"],
        ["merge", str(run), "--out", f"{out}/merged"],
        ["import", f"{out}/x.npz", "--out", f"{out}/imported"],
        ["report", str(run), "--out", f"{out}/report.html"],
    ]


@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
def test_no_command_lets_a_name_command_the_terminal(run, as_json):
    names = 0
    for words in commands(run):
        result = call(*words, *(["--json"] if as_json else []))
        assert result.exit_code == 0, (words, result.output)
        text = result.output
        assert printable(text) == text, words
        if as_json:
            text = json.dumps(json.loads(result.stdout))
        names += (json.dumps(EVIL)[1:-1] if as_json else HARMLESS) in text
    assert names >= 4  # the names are shown, only not obeyed


def test_a_name_with_line_ends_makes_no_lines_of_its_own(run):
    said = call("status", run, "--failures").output
    assert "posemill: all well" in said
    assert not any(line.startswith("posemill: all well") for line in said.splitlines())


def test_an_error_message_does_not_command_the_terminal(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["view", str(tmp_path / EVIL)])
    said = capsys.readouterr().err
    assert HARMLESS in said
    assert printable(said) == said


def test_only_what_shows_results_and_progress_prints():
    for path in Path(posemill.commands.__file__).parent.glob("*.py"):
        calls = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        }
        if path.name not in ("printing.py", "progress.py"):
            assert not calls & {"sys.stdout.write", "sys.stderr.write", "console.print", "print"}, (
                path.name
            )


def test_a_split_called_like_markup_is_shown_as_it_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressView(True) as view:
        view.show(Progress((SplitCounts("[/red]" + EVIL, 2, 1, 200, 49, 1),), {}, 20.0, 7.0))
    with show_progress("[/red]" + EVIL, 3) as advance:
        advance()
    said = capsys.readouterr().err
    assert "[/red]a?]0;owned" in said
    assert "\x1b]0;" not in said
