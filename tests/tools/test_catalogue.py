"""The Chinese catalogue: nothing missing, no placeholder lost, and compiled as it stands."""

from __future__ import annotations

import ast
import gettext
import re

import pytest
from babel.messages.pofile import read_po

from tools.catalogue import FILE, _sentences, find_messages

with FILE.open("rb") as _file:
    MESSAGES = {str(each.id): str(each.string) for each in read_po(_file) if each.id}
HINT = "run: make catalogue, and translate what it names"


def test_every_sentence_of_the_commands_is_translated() -> None:
    wanted = find_messages()
    assert [text for text in wanted if not MESSAGES.get(text)] == [], HINT
    assert [text for text in MESSAGES if text not in wanted] == [], HINT
    assert len(wanted) > 400


def test_no_placeholder_and_no_flag_differs() -> None:
    token = re.compile(r"\{--[^{}]*(?:\{\w+\})?\}|\{\w+(?=!r|!q|[:}])|--[a-z][\w-]*|`[^`]+`")
    for english, chinese in MESSAGES.items():
        # A plural has no place in Chinese: `{0} clip{1} failed`.
        lost = {"{1"} if re.search(r"(clip|frame)\{1\}", english) else set()
        assert set(token.findall(english)) - set(token.findall(chinese)) == lost, english
        assert set(token.findall(chinese)) <= set(token.findall(english)), english


def test_translations_are_chinese() -> None:
    same = {"GB", "sha256", "auto, cpu, cuda or cuda:N.", "[default: {}]", "View of {0}: {1}, {2}",
            "{0} frames  {1}", "posemill: {0}", "posemill: {text}", "posemill: {message}",
            "posemill: {error}", "; ",
            "posemill: {0}{1}", "gpus",
            "cpu, cuda:N or tensorrt:N.", "video_sampling: {0}",
            '{0}<img src="{1}">', "posemill.evaluate({0!r}, model=…, data=…)",
            "precision bf16"}  # fmt: skip
    plain = [text for text, said in MESSAGES.items() if not re.search("[\u4e00-\u9fff]", said)]
    assert set(plain) <= same


def test_the_compiled_file_says_what_the_readable_one_says() -> None:
    with FILE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert {text: compiled.gettext(text) for text in MESSAGES} == MESSAGES, HINT


@pytest.mark.parametrize(("code", "expected"), [
    ("raise E(f'{a} is {b!r} here')", ["{0} is {1!r} here"]),
    ("say('two ' + word('words') + ' more')", ["two {0} more", "words"]),
    ("say(f'one of {len(x):.1f} files')", ["one of {0} files"]),
    ("say(f'{counted(n, \"clips are\")} cut')", ["{0} clips are cut"]),
    ("x = counted(n, 'processes')", ["{0} processes"]),
    ("print_table(['split', 'longest gap'], rows)", ["split", "longest gap"]),
    ("columns = ['jumps', 'a_key']", ["jumps"]),
    ("x = 'word'", []), ("def f():\n    'A docstring of words.'", []),
    ("x: Annotated[int, Option(help='Some help here.')] = 1", []),
])  # fmt: skip
def test_sentences_are_found_in_sources(code: str, expected: list[str]) -> None:
    assert sorted(dict.fromkeys(_sentences(ast.parse(code)))) == sorted(expected)
