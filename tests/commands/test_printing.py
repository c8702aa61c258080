"""What commands print: tables for people, JSON for programs, nothing that commands a terminal."""

import io
import json
import re
import sys
import warnings
from pathlib import Path

import pytest

from posemill.commands.printing import print_json, print_lines, print_table, say, warnings_as_notes


def test_words_stand_left_and_numbers_right(capsys):
    print_table(["name", "frames", "share"], [("a", 5, "0.5"), ("long name", 1234, "-")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "name       frames  share"
    assert lines[2:] == ["a               5  0.5", "long name    1234  -"]
    assert set(lines[1]) == {"─"}
    print_table(["frames"], [(5,), ("none",)])  # one word makes words of all
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()][2:] == ["5", "none"]
    print_table(["split", "clips"], [])
    assert capsys.readouterr().out.splitlines()[0].split() == ["split", "clips"]


@pytest.mark.parametrize("text", ["class 1 videos/a.mp4 is 'take 1 frames'", "1 clips are, 1 clip"])
def test_a_name_with_a_number_in_it_stays(text, capsys):
    say(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_into_a_pipe_a_row_is_one_line_and_marks_are_no_markup(capsys):
    name = "x" * 150 + "[bold]y[/bold]"
    print_table(["name", "more"], [(name, "z" * 100), ("a\x1b[2Jb\x07", "")])
    first, second = capsys.readouterr().out.splitlines()[2:]
    assert first.split() == [name, "z" * 100]
    assert second.rstrip() == "a?[2Jb?"


def test_on_a_narrow_terminal_words_are_folded_and_figures_are_not(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(["clip", "clips failed", "size"], [("left_swipe/left_swipe_001", 3, "1280x720 +2")])
    said = re.sub(r"\x1b\[[\d;]*m", "", sys.stdout.getvalue())  # what makes headings bold
    lines = [line.split() for line in said.splitlines()]
    assert lines[:2] == [["clips"], ["clip", "failed", "size"]]
    assert lines[3] == ["left_swipe/left_swi", "3", "1280x720", "+2"]
    print_table(["a"] * 9, [["120x120"] * 9])  # too wide: nothing is cut off
    assert sys.stdout.getvalue().splitlines()[-1].split() == ["120x120"] * 9


def test_json_keeps_letters_and_spells_out_what_is_no_text(capsys):
    print_json({"path": Path("a/b"), "name": "手", "odd": "caf\udce9"})
    said = capsys.readouterr().out
    assert json.loads(said) == {"path": "a/b", "name": "手", "odd": "caf\udce9"}
    assert "手" in said
    assert '\n  "path"' in said


def test_values_stand_under_each_other(capsys):
    print_lines([("a", 1), ("longer", "two")])
    assert capsys.readouterr().out == "a       1\nlonger  two\n"
    print_lines([])
    assert capsys.readouterr().out == ""


def test_notes_and_warnings_go_to_stderr(capsys):
    with warnings_as_notes():
        warnings.warn("old file", UserWarning, stacklevel=1)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "note: old file\n"


def test_a_table_shows_letters_that_the_terminal_has_not_by_their_number(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    print_table(["片段"], [["数据"]])
    assert b"\\u7247\\u6bb5" in written.getvalue()
    assert b"\\u6570\\u636e" in written.getvalue()
