"""Help in Chinese: no line wider than the terminal, nothing cut off, columns under each other."""

from __future__ import annotations

import re

import pytest
import typer.main
from typer.testing import CliRunner

from posemill.cli.app import build_app
from posemill.cli.help_page import wrapped
from posemill.terminal import width_of

COMMANDS = sorted(typer.main.get_command(build_app()).commands)  # type: ignore[attr-defined]


def test_lines_end_between_characters_but_not_before_a_closing_mark() -> None:
    assert list(wrapped("一二三，四五（六）", 6)) == ["一二", "三，四", "五", "（六）"]
    assert list(wrapped("用 --resume 断点续跑。", 12)) == ["用 --resume", "断点续跑。"]
    assert list(wrapped("写出 x.json。", 8)) == ["写出", "x.json。"]
    assert list(wrapped("a b", 80)) == ["a b"]
    assert list(wrapped("averylongword", 4)) == ["averylongword"]
    assert list(wrapped("", 4)) == []


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", str(columns))
    said = CliRunner().invoke(build_app(), [command, "--help"]).output
    assert said.startswith("用法：")
    wide = [line for line in said.splitlines() if width_of(line) > columns]
    # Only a spelling that is longer by itself, such as a flag with all its choices.
    assert [line for line in wide if re.search("[\u4e00-\u9fff]", line.partition("  ")[2])] == []
    assert "…" not in said.replace("……", "")


def test_names_and_texts_stand_under_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(build_app(), ["logs", "--help"]).output.splitlines()
    assert "  -n, --lines <int>  行数。" in "\n".join(lines)
    assert "  -f, --follow       运行期间持续输出。" in lines


def test_the_usage_names_arguments_without_braces() -> None:
    def usages(command: object, parent: object) -> list[str]:
        ctx = command.context_class(command, parent=parent, info_name=command.name)  # type: ignore[attr-defined]
        below = getattr(command, "commands", {}).values()
        return [command.get_usage(ctx)] + [one for each in below for one in usages(each, ctx)]  # type: ignore[attr-defined]

    found = usages(typer.main.get_command(build_app()), None)
    assert [each for each in found if "{" in each] == []
    assert "Usage: posemill bench decode [OPTIONS] VIDEO..." in found
    assert "Usage: posemill compare [OPTIONS] RUN_A RUN_B" in found
