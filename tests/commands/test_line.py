"""The command line's own manners: spelling, exit codes, versions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated

import pytest
from cli_runner import CliRunner

from posemill import __main__, __version__
from posemill.commands import line
from posemill.commands.declaring import Command
from posemill.commands.line import load_commands, main, run_line
from posemill.commands.printing import say
from posemill.errors import PosemillError, WeightsError
from posemill.settings import setting


def show(
    source: Annotated[str, setting("Where from.", argument=True)],
    *,
    splits: Annotated[Sequence[str] | None, setting("Some.")] = None,
    num_workers: Annotated[int, setting("How many.")] = 1,
    other_list: Annotated[Sequence[str] | None, setting("More.")] = None,
    tune: Annotated[str, setting("What.", choices=("all", "speed"), bare="all")] = "none",
) -> None:
    """Show what was given."""
    say(f"{[source, splits, num_workers, other_list, *([] if tune == 'none' else [tune])]}")


def fail(how: Annotated[str, setting("In which way.", argument=True)]) -> None:
    """Fail."""
    errors = {
        "known": WeightsError("expected this, got that; do the other"),
        "interrupt": KeyboardInterrupt(),
        "forbidden": PermissionError(13, "Permission denied", "runs/a"),
        "strange": OSError("without a file"),
        "full": OSError(28, "No space left on device"),
    }
    raise errors[how]


def show_words(*, two_words: Annotated[int, setting("A number.")] = 0) -> None:
    """Show a number."""
    say("{number}", number=two_words)


def need(
    *,
    much: Annotated[float, setting("How much.")],
    loud: Annotated[bool, setting("Whether it is heard.")] = False,
) -> None:
    """Show what was needed."""
    say("{much} {loud}", much=much, loud=loud)


GROUPS = {"group": "Several."}
COMMANDS = (
    Command("show", show, aliases={"--parts": "--splits"}),
    Command("fail", fail),
    Command("need", need),
    Command("group show", show_words),
)


@pytest.fixture
def app(monkeypatch):
    """The command line with the commands above."""
    monkeypatch.setattr(line, "import_module", lambda name: sys.modules[__name__])
    monkeypatch.setattr(line, "MODULES", ("this module",))
    return run_line


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        # Flags with underscores, and several values after one.
        (["x", "--splits", "train", "dev"], ["x", ("train", "dev"), 1, None]),
        (["x", "--splits", "train", "--splits", "dev"], ["x", ("train", "dev"), 1, None]),
        (["x", "--splits=train"], ["x", ("train",), 1, None]),
        (["x", "--num_workers", "3"], ["x", None, 3, None]),
        (["x", "--num_workers=3", "--splits", "a_b"], ["x", ("a_b",), 3, None]),
        (
            ["x", "--splits", "a", "b", "--other_list", "1", "2", "3", "--num-workers", "2"],
            ["x", ("a", "b"), 2, ("1", "2", "3")],
        ),
        # The last value before the end is the argument that is missing.
        (["--splits", "train", "x"], ["x", ("train",), 1, None]),
        (["--splits", "train", "dev", "x", "--num-workers", "2"], ["x", ("train", "dev"), 2, None]),
        (["--splits", "train", "x", "--other-list", "4"], ["x", ("train",), 1, ("4",)]),
        (["--num-workers", "2", "--splits", "train", "x"], ["x", ("train",), 2, None]),
        (["--splits", "train", "--", "x"], ["x", ("train",), 1, None]),
        # After two dashes words are left alone.
        (["--num_workers", "2", "--", "--odd_name"], ["--odd_name", None, 2, None]),
        (["--", "--parts"], ["--parts", None, 1, None]),
        (["-"], ["-", None, 1, None]),
        # Flags of other programs.
        (["x", "--parts", "a", "b"], ["x", ("a", "b"), 1, None]),
        (["x", "--parts=a", "--splits", "b"], ["x", ("a", "b"), 1, None]),
        # A flag without its value has its usual one.
        (["x", "--tune"], ["x", None, 1, None, "all"]),
        (["--tune", "speed", "x"], ["x", None, 1, None, "speed"]),
        (["--tune", "x"], ["x", None, 1, None, "all"]),
        (["--tune=speed", "x"], ["x", None, 1, None, "speed"]),
    ],
)
def test_flags_values_and_arguments_are_told_apart(app, arguments, seen):
    result = CliRunner().invoke(app, ["show", *arguments])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(seen)
    assert not result.stderr


def test_two_arguments_behind_the_values_of_a_flag_keep_their_order():
    compare = load_commands()[0]["compare"]
    values, _ = line.read_words(compare, ["--splits", "train", "a", "b"])
    assert values == {"one": Path("a"), "other": Path("b"), "splits": ("train",)}


# Words of other programs and of the requirement, and what they mean here.
ALIASES = {
    "extract": {"--keep": "skeleton", "--dataset-path": "source", "--output-path": "out"},
    "plan": {"--keep": "skeleton"},
    "train": {"--mode": "parallel", "--num-workers": "workers", "--decoder": "ctc_decoder"},
    "sweep": {"--jobs": "workers"},
    "merge": {"--input-files": "runs", "--output-path": "out"},
    "prepare": {"--keypoints-file": "run", "--output-dir": "out"},
}


@pytest.mark.parametrize("name", ALIASES)
def test_words_of_other_programs_are_taken_and_mean_ours(name):
    command = load_commands()[0][name]
    for flag, meant in ALIASES[name].items():
        reader = line._Reader(command)
        reader.read([flag, "1"])
        assert list(reader.texts) == [meant]


def test_every_alias_leads_to_a_flag_of_its_command():
    for command in load_commands()[0].values():
        known = line._Reader(command)._known
        assert {flag.split("=")[0] for flag in command.aliases.values()} <= set(known)
        plain = {flag for flag, meant in command.aliases.items() if "=" not in meant}
        assert not set(known) & plain, command.name


# What commands do unless something else is said; all that is not here is off, nothing or none.
DEFAULTS = {
    "demo": {"out": Path("demo")},
    "landmarks": {"mode": "auto", "engine": "holistic", "decoder": "pyav", "device": "cpu",
                  "threads": 1},
    "bench decode": {"seconds": 1.0},
    "bench engine": {"engine": "holistic", "num_frames": 8, "rounds": 3},
    "logs": {"lines": 50},
    "prepare": {"out": "model_input_data", "people": 1, "normalize": "none", "smooth": "none",
                "person": "main"},
    "export": {"normalize": "none", "smooth": "none", "person": "main"},
    "view": {"rows": 5},
    "visualize": {"out": "pictures", "num_samples": 10, "person": "all", "style": "keypoints"},
    "report": {"out": "report.html"},
    "serve": {"folders": (".",), "host": "127.0.0.1", "port": 8765},
    "evaluate": {"checkpoint": "best", "device": "auto"},
    "predict": {"device": "auto", "engine_device": "cpu", "threads": 1},
    "sweep": {"workers": 1},
    "synthetic-corpus": {"glosses": 80, "train": 600},
}  # fmt: skip


def test_no_switch_is_on_and_no_number_is_set_that_is_not_listed_here():
    found = {
        name: {
            field.flat: field.default
            for field in command.fields.values()
            if field.default and field.default is not MISSING
        }
        for name, command in load_commands()[0].items()
        if name
        not in ("extract", "plan", "frames", "train", "tune")  # settings have tests of their own
    }
    assert {name: usual for name, usual in found.items() if usual} == DEFAULTS


def test_help_names_what_the_tables_hold():
    from posemill.formats import FORMATS

    text = CliRunner().invoke(run_line, ["export", "--help"], env={"COLUMNS": "300"}).stdout
    words = " ".join(text.split())
    assert f"One of: {', '.join(FORMATS)}." in words
    for command, flag in (("merge", "--input-files"), ("prepare", "--keypoints-file")):
        assert flag in CliRunner().invoke(run_line, [command, "--help"]).output
    assert "{posemill" not in words
    text = CliRunner().invoke(run_line, ["extract", "--help"], env={"COLUMNS": "200"}).stdout
    assert "One of: holistic" in text
    assert "fake" not in text, "it is for tests"


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("known", 2, "expected this, got that; do the other"),
        ("forbidden", 2, "runs/a: Permission denied"),
        ("full", 2, "No space left on device"),
        ("interrupt", 130, "interrupted"),
    ],
)
def test_an_error_is_one_line_and_a_code(app, how, code, said, capsys):
    with pytest.raises(SystemExit) as info:
        main(["fail", how])
    assert info.value.code == code
    assert capsys.readouterr().err == f"posemill: {said}\n"


def test_an_interruption_while_the_program_is_still_being_loaded_is_quiet(monkeypatch, capsys):
    class Interrupting:
        def find_spec(*_):
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "posemill.commands.line")
    monkeypatch.setattr(sys, "meta_path", [Interrupting()])
    with pytest.raises(SystemExit) as info:
        __main__.main()
    assert (info.value.code, capsys.readouterr().err) == (130, "")


def test_an_error_that_nobody_knows_and_debug_show_the_traceback(app):
    with pytest.raises(OSError, match="without a file"):
        main(["fail", "strange"])
    with pytest.raises(PosemillError, match="expected this, got that"):
        main(["--debug", "fail", "known"])
    with pytest.raises(PermissionError):
        main(["--debug", "fail", "forbidden"])


def test_every_command_explains_itself():
    commands, groups = load_commands()
    assert all(groups.values())
    silent = [name for name, command in commands.items() if not command.help]
    silent += [
        f"{name} {field.flat}"
        for name, command in commands.items()
        for field in command.fields.values()
        if not field.help
    ]
    assert silent == []
    assert commands["tune"].fields["out"].default is None  # its own, not that of the training


@pytest.mark.parametrize("command", [(), ("extract",), ("train",), ("status",)])
def test_help_is_whole_and_readable_at_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(run_line, [*command, "--help"]).stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert not re.search(r"<bool>|<list|--\S*…|[│╭]", text)
    assert len(lines) < (60 if not command else 90 if command != ("train",) else 260)


@pytest.mark.parametrize("group", [[], ["models"], ["bench"]])
def test_a_group_without_a_command_shows_its_help(group, capsys):
    with pytest.raises(SystemExit) as caught:
        main(group)
    assert caught.value.code == 2
    assert "Commands:" in capsys.readouterr().err


def test_a_line_that_cannot_be_read_is_explained_in_chinese_too(monkeypatch):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    result = CliRunner().invoke(run_line, ["extract", "x", "--workers", "two"])
    assert result.exit_code == 2
    assert "'two'" in result.output
    assert not re.search("expected|Usage", result.output)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shwo", "x"], "No such command 'shwo'; did you mean 'show'?"),
        (["group", "shwo"], "No such command 'shwo'; did you mean 'show'?"),
        (["--verson"], "No such option: --verson"),
        (["group", "--version"], "No such option: --version"),
        (["show"], "Missing argument 'SOURCE'."),
        (["show", "x", "y"], "Got unexpected extra arguments (y)"),
        (["show", "x", "--", "--help"], "Got unexpected extra arguments (--help)"),
        (["show", "x", "--num-workers"], "Option '--num-workers' requires an argument."),
        (["show", "x", "--parts"], "Option '--parts' requires an argument."),
        (
            ["show", "x", "--num_workers", "--splits", "a"],
            "Option '--num-workers' requires an argument.",
        ),
        (
            ["show", "x", "--num-workers", "two"],
            "--num-workers: expected a whole number, got 'two'",
        ),
        (["show", "x", "--no_such_flag"], "No such option: --no-such-flag"),
        (["show", "x", "--split"], "No such option: --split; did you mean '--splits'?"),
        (["need"], "Missing option '--much'."),
        (["need", "--much", "1.5x"], "--much: expected a number, got '1.5x'"),
        (["need", "--much", "1", "--loud=yes"], "Option '--loud' does not take a value."),
    ],
)
def test_a_line_that_cannot_be_read_says_the_usage_and_why(app, arguments, expected):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    usage, reason = result.stderr.splitlines()
    assert usage.startswith("Usage: posemill")
    assert reason == f"posemill: {expected}"
    assert not result.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--version", f"posemill {__version__}"),
        ("group show --two_words 7", "7"),
        ("need --much -2.5", "-2.5 False"),
        ("need --much 1 --loud", "1.0 True"),
        ("need --much 1 --loud --no-loud", "1.0 False"),
    ],
)
def test_groups_numbers_below_zero_and_both_spellings_of_a_switch_are_read(app, line, said):
    assert CliRunner().invoke(app, line.split()).stdout == f"{said}\n"


def test_who_reads_our_output_may_leave():
    command = f"{sys.executable} -m posemill train --help | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], stderr=-1, check=False)
    assert done.stderr == b""
    assert done.returncode == 1
