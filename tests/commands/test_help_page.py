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
    "advise": 1288292480, "bench decode": 638274226, "bench engine": 3385363935,
    "compare": 1821973332, "demo": 2449163774, "doctor": 1533895086, "engines": 125539631,
    "evaluate": 2396356025, "export": 998015048, "extract": 3473975851, "frames": 2419659644,
    "import": 791979379, "landmarks": 2747291885, "logs": 702301898, "merge": 2209582450,
    "models list": 125539631, "models pull": 595061973, "plan": 1000102361, "predict": 771691351,
    "prepare": 2160227405, "report": 3138275314, "serve": 1947825706, "status": 1362123516,
    "stop": 960743059, "sweep": 1963429767, "synthetic-corpus": 1507284928, "train": 2132065877,
    "tune": 1201223723, "view": 880410541, "visualize": 3070339605,
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
        found[name] = zlib.crc32(repr(facts).encode())
    assert found == SUMS
