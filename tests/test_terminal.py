import json
import logging

import pytest

from posemill.terminal import counted, escaped, printable, warn_once

EVIL = "a\x1b]0;owned\x07\x9b2J\u202egnp.\x08"


def test_json_has_an_escape_for_what_is_not_shown():
    value = {"name": EVIL + "\udce9\U000e0001手"}
    text = escaped(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert "\\u009b2J\\u202e" in text
    assert "\\udb40\\udc01手" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("手\u3000語 é\u00a0x\n\ty",) * 2, ("\udce9", "?"), (7, "7"), ("a\x1bb", "a?b"),
     ("a\u200eb", "a?b"), ("x\u3000y", "x\u3000y"),
     ("a\rb", "a?b"), ("\u2028", "?"), ("\ue000", "?")],
)  # fmt: skip
def test_what_commands_a_terminal_is_a_question_mark(text, shown):
    assert printable(text) == shown
    assert printable(f"{text}\n\t", keep="")[-2:] == "??"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain\u3000é", "plain\u3000é"), ("a\nb", "a\nb"), ("a\tb", "a\\tb"),
     ("\x7f", "\\u007f"), ("\U000e0001", "\\udb40\\udc01")],
)  # fmt: skip
def test_an_escape_has_four_digits_for_every_16_bits(text, shown):
    assert escaped(text) == shown


def test_a_warning_is_logged_once_and_commands_nothing(caplog):
    for text in ("bad\x1b name", "bad\x1b name", "other"):
        warn_once(text)
    assert caplog.record_tuples == [
        ("posemill", logging.WARNING, "bad? name"), ("posemill", logging.WARNING, "other"),
    ]  # fmt: skip


def test_one_thing_is_said_as_one():
    assert [counted(number, "clips") for number in (0, 1, 21)] == ["0 clips", "1 clip", "21 clips"]
