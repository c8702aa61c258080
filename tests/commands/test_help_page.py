"""Help in Chinese: no line wider than the terminal, nothing cut off, columns under each other."""

import re
import zlib

import pytest
from cli_runner import CliRunner

from posemill.commands.help_page import usage_of, wrapped
from posemill.commands.line import load_commands, run_line
from posemill.terminal import width_of

COMMANDS = sorted(load_commands()[0])
SUMS = {
    "advise": 2480, "bench decode": 4226, "bench engine": 3935, "compare": 3332, "demo": 3774,
    "doctor": 5086, "engines": 9631, "evaluate": 6025, "export": 5048, "extract": 5851,
    "frames": 9644, "import": 9379, "landmarks": 1885, "logs": 1898, "merge": 2450,
    "models list": 9631, "models pull": 1973, "plan": 2361, "predict": 1351, "prepare": 7405,
    "report": 5314, "serve": 5706, "status": 3516, "stop": 3059, "sweep": 9767,
    "synthetic-corpus": 4928, "train": 5877, "tune": 3723, "view": 541, "visualize": 9605,
}  # fmt: skip


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


def test_flags_defaults_and_limits_are_those_of_the_documentation():
    """Sums of what each command declares: a change of one belongs into docs/ and CHANGELOG.md."""
    told = "flat choices least most above old flags metavar argument bare".split()
    found = {}
    for name, command in load_commands()[0].items():
        facts = [sorted(command.aliases.items())]
        for field in command.fields.values():
            kind = str(field.kind), field.is_optional, str(field.default)[:20]
            facts.append((field.flat, *kind, *map(field.meta.get, told)))
        found[name] = zlib.crc32(repr(facts).encode()) % 10_000
    assert found == SUMS
