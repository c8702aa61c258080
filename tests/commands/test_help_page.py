"""Help in Chinese: no line wider than the terminal, nothing cut off, columns under each other."""

import re

import pytest
from cli_runner import CliRunner

from posemill.commands.help_page import usage_of, wrapped
from posemill.commands.line import load_commands, run_line
from posemill.terminal import width_of

COMMANDS = sorted(load_commands()[0])


def test_lines_end_between_characters_but_not_before_a_closing_mark():
    assert list(wrapped("一二三，四五（六）", 6)) == ["一二", "三，四", "五", "（六）"]
    assert list(wrapped("用 --resume 断点续跑。", 12)) == ["用 --resume", "断点续跑。"]
    assert list(wrapped("写出 x.json。", 8)) == ["写出", "x.json。"]
    assert list(wrapped("a b", 80)) == ["a b"]
    assert list(wrapped("averylongword", 4)) == ["averylongword"]
    assert list(wrapped("", 4)) == []


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal(command, columns, monkeypatch):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", str(columns))
    said = CliRunner().invoke(run_line, [*command.split(), "--help"]).output
    assert said.startswith("用法：")
    wide = [line for line in said.splitlines() if width_of(line) > columns]
    # Only a spelling that is longer by itself, such as a flag with all its choices.
    assert [line for line in wide if re.search("[\u4e00-\u9fff]", line.partition("  ")[2])] == []
    assert "…" not in said.replace("……", "")


def test_names_and_texts_stand_under_each_other(monkeypatch):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(run_line, ["logs", "--help"]).output.splitlines()
    assert "  -n, --lines <int>  行数。" in "\n".join(lines)
    assert "  -f, --follow       运行期间持续输出。" in lines


def test_the_usage_names_arguments():
    usages = {usage_of(command) for command in load_commands()[0].values()}
    assert "posemill bench decode [OPTIONS] VIDEO..." in usages
    assert "posemill compare [OPTIONS] RUN_A RUN_B" in usages
    assert "posemill predict [OPTIONS] RUN SOURCE..." in usages
    assert "posemill serve [OPTIONS] [FOLDER...]" in usages
