"""The command line's own manners: spelling, exit codes, versions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from posemill import __version__
from posemill.cli import app as app_module
from posemill.cli.app import _with_values, build_app, main
from posemill.cli.options import old_flags
from posemill.errors import PosemillError, WeightsError


def register(app: typer.Typer) -> None:
    @app.command("show")
    @old_flags({"--parts": "--splits", "--only": "--splits only="})
    def show(
        source: str,
        splits: Annotated[list[str] | None, typer.Option()] = None,
        num_workers: int = 1,
        other_list: Annotated[list[int] | None, typer.Option()] = None,
    ) -> None:
        typer.echo([source, splits, num_workers, other_list])

    @app.command("fail")
    def fail(how: str) -> None:
        errors: dict[str, BaseException] = {
            "known": WeightsError("expected this, got that; do the other"),
            "interrupt": KeyboardInterrupt(),
            "forbidden": PermissionError(13, "Permission denied", "runs/a"),
            "strange": OSError("without a file"),
            "full": OSError(28, "No space left on device"),
        }
        raise errors[how]

    group = typer.Typer()
    group.command("show")(lambda two_words=0: typer.echo(two_words))
    group.command("other")(lambda: None)
    app.add_typer(group, name="group")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command line with one group of commands, the one above."""
    import sys

    monkeypatch.setattr(app_module, "import_module", lambda name: sys.modules[__name__])
    monkeypatch.setattr(app_module, "_GROUPS", ("this module",))
    return build_app()


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["--splits", "train", "dev"], ["x", ["train", "dev"], 1, None]),
        (["--splits", "train", "--splits", "dev"], ["x", ["train", "dev"], 1, None]),
        (["--splits=train"], ["x", ["train"], 1, None]),
        (["--num_workers", "3"], ["x", None, 3, None]),
        (["--num_workers=3", "--splits", "a_b"], ["x", ["a_b"], 3, None]),
        (
            ["--splits", "a", "b", "--other_list", "1", "2", "3", "--num-workers", "2"],
            ["x", ["a", "b"], 2, [1, 2, 3]],
        ),
    ],
)
def test_underscores_and_several_values_after_one_flag_work(
    app: typer.Typer, arguments: list[str], seen: list[Any]
) -> None:
    result = CliRunner().invoke(app, ["show", "x", *arguments])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(seen)


def test_after_two_dashes_words_are_left_alone(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["show", "--num_workers", "2", "--", "--odd_name"])
    assert result.stdout.strip() == str(["--odd_name", None, 2, None])


def test_commands_inside_groups_have_the_same_manners(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["group", "show", "--two_words", "7"]).stdout.strip() == "7"


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["--parts", "a", "b"], ["a", "b"]),
        (["--parts=a", "--splits", "b"], ["a", "b"]),
        (["--only", "a"], ["only=a"]),
        (["--only=a", "--splits", "b"], ["only=a", "b"]),
        (["--splits", "a"], ["a"]),
        (["--", "--parts"], None),
    ],
)
def test_flags_of_other_programs_work_like_our_own(
    app: typer.Typer, arguments: list[str], seen: list[str] | None
) -> None:
    source = [] if arguments[0] == "--" else ["x"]
    result = CliRunner().invoke(app, ["show", *source, *arguments])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str([arguments[-1] if not source else "x", seen, 1, None])
    assert not result.stderr


# Every flag that 0.1 had and that has another name now.
OLD_FLAGS = {
    "extract": {"--keep": "--skeleton"},
    "plan": {"--keep": "--skeleton"},
    "train": {"--mode": "--parallel", "--num-workers": "--workers", "--decoder": "--ctc-decoder"},
    "sweep": {"--jobs": "--workers"},
    "landmarks": {"--runtime": "--engine-option runtime="},
    **{name: {"--layout": "--skeleton"} for name in ("merge", "prepare", "export", "import")},
}


def test_only_the_command_that_is_asked_for_is_built() -> None:
    commands = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    assert commands.get("nothing") is None
    assert commands.get("view").name == "view"
    built = [name for name in commands if dict.__getitem__(commands, name)]
    assert built == ["view", "models", "bench"], "the last two are groups"
    assert [command.name for command in commands.values()] == list(commands)


def test_every_old_flag_leads_to_a_flag_of_its_command() -> None:
    commands = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    found = {name: getattr(command.callback, "old_flags", {}) for name, command in commands.items()}
    for name, renamed in OLD_FLAGS.items():
        assert renamed.items() <= found[name].items()
        known = {flag for parameter in commands[name].params for flag in parameter.opts}
        assert {re.split("[ =]", new)[0] for new in found[name].values()} <= known
        assert not known & set(found[name])


# What commands do unless something else is said; all that is not here is off, nothing or none.
DEFAULTS = {
    "demo": {"out": Path("demo")},
    "landmarks": {"engine": "holistic", "decoder": "pyav", "device": "cpu", "threads": 1},
    "logs": {"lines": 50},
    "plan": {"sample_seconds": 20.0},
    "prepare": {"out": Path("model_input_data"), "normalize": "none", "person": "main"},
    "export": {"normalize": "none", "person": "main"},
    "view": {"rows": 5},
    "visualize": {
        "out": Path("pictures"),
        "num_samples": 10,
        "person": "all",
        "style": "keypoints",
    },
    "report": {"out": Path("report.html")},
    "serve": {"host": "127.0.0.1", "port": 8765},
    "evaluate": {"split": "test", "checkpoint": "best", "device": "auto"},
    "predict": {"device": "auto", "engine_device": "cpu", "threads": 1},
    "sweep": {"workers": 1},
    "synthetic-corpus": {"glosses": 80, "train": 600},
}


def test_no_switch_is_on_and_no_number_is_set_that_is_not_listed_here() -> None:
    commands = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    found = {
        name: {each.name: each.default for each in command.params if each.default}
        for name, command in commands.items()
    }
    assert {name: usual for name, usual in found.items() if usual} == DEFAULTS


def test_help_names_what_the_tables_hold() -> None:
    from posemill.formats import FORMATS

    text = CliRunner().invoke(build_app(), ["export", "--help"], env={"COLUMNS": "300"}).stdout
    words = " ".join(text.split())
    assert f"One of: {', '.join(FORMATS)}." in words
    assert "{posemill" not in words


def test_an_unknown_flag_is_wrong_usage(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["show", "x", "--no_such_flag"])
    assert result.exit_code == 2
    assert "--no-such-flag" in result.output


def test_the_version_is_said() -> None:
    result = CliRunner().invoke(build_app(), ["--version"])
    assert result.stdout == f"posemill {__version__}\n"


def test_our_errors_are_one_line_and_code_2(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as info:
        main(["fail", "known"])
    assert info.value.code == 2
    assert capsys.readouterr().err == "posemill: expected this, got that; do the other\n"


def test_a_file_the_system_refuses_is_one_line_and_code_2(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as info:
        main(["fail", "forbidden"])
    assert info.value.code == 2
    assert capsys.readouterr().err == "posemill: runs/a: Permission denied\n"
    with pytest.raises(SystemExit) as info:
        main(["fail", "full"])
    assert info.value.code == 2
    assert capsys.readouterr().err == "posemill: No space left on device\n"
    with pytest.raises(OSError, match="without a file"):
        main(["fail", "strange"])


def test_debug_shows_the_traceback(app: typer.Typer) -> None:
    with pytest.raises(PosemillError, match="expected this, got that"):
        main(["--debug", "fail", "known"])
    with pytest.raises(PermissionError):
        main(["--debug", "fail", "forbidden"])


def test_an_interrupt_is_code_130_and_is_said(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as info:
        main(["fail", "interrupt"])
    assert info.value.code == 130
    assert capsys.readouterr().err == "posemill: interrupted\n"


def test_every_command_explains_itself() -> None:
    command = typer.main.get_command(build_app())

    def walk(command: Any, path: str) -> list[str]:
        silent = [] if command.help else [path]
        for name, child in getattr(command, "commands", {}).items():
            silent += walk(child, f"{path} {name}")
        for parameter in command.params:
            if getattr(parameter, "help", "") in (None, "") and parameter.name != "help":
                silent.append(f"{path} {parameter.opts[0]}")
        return silent

    assert walk(command, "posemill") == []


@pytest.mark.parametrize("command", [(), ("extract",), ("train",), ("status",)])
def test_help_is_whole_and_readable_at_80_columns(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(build_app(), [*command, "--help"]).stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert not re.search(r"<bool>|<list|--\S*…|[│╭]", text), "typer's tables cut names off"
    assert len(lines) < (60 if not command else 90 if command != ("train",) else 260)


def test_engines_for_tests_are_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = CliRunner().invoke(build_app(), ["extract", "--help"]).stdout
    assert "One of: holistic" in text
    assert "fake" not in text


@pytest.mark.parametrize("group", [[], ["models"], ["bench"]])
def test_a_group_without_a_command_shows_its_help(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(group)
    assert caught.value.code == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], []),
        (["a.toml", "--tune"], ["a.toml", "--tune", "all"]),
        (["--tune", "speed", "a.toml"], ["--tune", "speed", "a.toml"]),
        (["--tune", "a.toml"], ["--tune", "all", "a.toml"]),
        (["--tune=speed"], ["--tune=speed"]),
    ],
)
def test_a_flag_without_its_value_has_the_first_one(args: list[str], expected: list[str]) -> None:
    assert _with_values(args, {"--tune": ("all", "speed")}) == expected


@pytest.mark.parametrize(
    ("arguments", "expected", "got"),
    [
        (["extract", "x", "--workers", "two"], "a whole number", "'two'"),
        (["extract", "x", "--fps=fast"], "a number", "'fast'"),
        (["logs", "run", "-n", "x"], "a whole number", "'x'"),
    ],
)
def test_a_value_that_is_no_number_is_shown(arguments, expected, got, monkeypatch):
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 2
    assert f"expected {expected}, got {got}" in result.output
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    output = CliRunner().invoke(build_app(), arguments).output
    assert "expected" not in output
    assert "Usage" not in output
    assert got in output


@pytest.mark.parametrize(
    ("command", "flag"), [("merge", "--input-files"), ("prepare", "--keypoints-file")]
)
def test_the_words_of_the_requirement_are_in_the_help(command, flag):
    assert flag in CliRunner().invoke(build_app(), [command, "--help"]).output
