"""The Chinese catalogue: nothing missing, no placeholder lost, and compiled as it stands."""

import ast
import gettext
import re

import pytest
from babel.messages.pofile import read_po

from posemill.commands.line import load_commands
from posemill.training.config.run_settings import PRESETS
from tools import preset_table
from tools.catalogue import FILE, PACKAGE, arguments, find_messages, templates, tree_of

with FILE.open("rb") as _file:
    MESSAGES = {str(each.id): str(each.string) for each in read_po(_file) if each.id}
COMMANDS = "|".join(name for name in load_commands()[0] if " " not in name)
HINT = "run: make catalogue, and translate what it names"


def test_every_sentence_of_the_commands_is_translated():
    wanted = find_messages()
    assert [text for text in wanted if not MESSAGES.get(text)] == [], HINT
    assert [text for text in MESSAGES if text not in wanted] == [], HINT
    assert len(wanted) > 400


def test_placeholders_and_flags_do_not_differ_and_paths_are_quoted_for_the_shell():
    token = re.compile(r"\{--[^{}]*(?:\{\w+\})?\}|\{\w+(?=!r|!q|[:}])|--[a-z][\w-]*|`[^`]+`")
    for english, chinese in MESSAGES.items():
        assert set(token.findall(english)) == set(token.findall(chinese)), english
    bare = re.compile(rf"posemill (?:{COMMANDS}) (?:[A-Z_]+ )*(?:--out )?\{{\w+[:}}]")
    assert bare.search("look: posemill status {run} --failures")
    assert not bare.search("look: posemill status {run!q}")
    texts = (text for pair in MESSAGES.items() for text in pair)
    assert [text for text in texts if bare.search(text)] == []


def test_translations_are_chinese():
    # Names, commands and templates that only set marks between values.
    plain = {text for text, said in MESSAGES.items() if not re.search("[\u4e00-\u9fff]", said)}
    words = {re.sub(r"\{[^{}]*\}|\$? ?posemill( \w+)?:?|--[\w-]+", "", text) for text in plain}
    allowed = {"GB", "gpus", "sha256", "auto, cpu, cuda or cuda:N.", "cpu, cuda:N or tensorrt:N."}
    assert {text for text in words if re.search("[A-Za-z]{2}", text)} <= allowed


def test_the_compiled_file_says_what_the_readable_one_says():
    with FILE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert {text: compiled.gettext(text) for text in MESSAGES} == MESSAGES, HINT


@pytest.mark.parametrize(("code", "expected"), [
    ("raise RunError('{a} is cut', a=a)", ["{a} is cut"]),
    ("raise ValueError('no message of ours')", []),
    ("say('one' if x else 'two {n:clip|clips}', n=n)", ["one", "two {n:clip|clips}"]),
    ("say('{a}: {b}', a=a, b=b)", []),
    ("text = 'lost'\ntext = 'found {n}'\nMessage(text)", ["found {n}", "lost"]),
    ("NAMES = {'a': 'first'}\nMessage(NAMES['a'])", ["first"]),
    ("print_table(['split', 'longest gap'], rows)", ["longest gap", "split"]),
    ("print_lines([('speed', 3), (Message('engine {n}', n=1), 4)])", ["engine {n}", "speed"]),
    ("columns = ['jumps']\ncolumns += ['why']\nprint_table(columns, [])", ["jumps", "why"]),
    ("table = {'{n} clips are cut': 1}", ["{n} clips are cut"]),
    ("raise DecodeError('cut {p}', p=p, reason='no frames')", ["cut {p}", "no frames"]),
    ("x = 'word'", []), ("def f():\n    'A docstring of {many} words.'", []),
    ("x = f'{a} is {b!r} here'", []),
])  # fmt: skip
def test_templates_are_found_in_sources(code, expected):
    assert sorted(set(templates(ast.parse(code)))) == expected


def test_no_template_is_put_together_before_it_is_looked_up():
    """A finished sentence has no translation, and its values could not be told from its words."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                for argument in arguments(node):
                    is_text = isinstance(argument, ast.JoinedStr | ast.BinOp)
                    if is_text and "unexpected " not in ast.unparse(argument):  # of others' errors
                        wrong.append(f"{path.relative_to(PACKAGE)}:{argument.lineno}")
    assert wrong == []


def test_the_page_of_presets_shows_those_of_the_code():
    page = preset_table.FILE.read_text(encoding="utf-8")
    assert preset_table.with_table(page) == page, "python -m tools.preset_table"
    assert preset_table.preset_table().splitlines()[0].count("|") == len(PRESETS) + 2
