"""What is printed, in the language of the reader: English, or Chinese by a gettext catalogue.

Text is translated where it is printed and nowhere else: errors, logs, JSON and files stay English,
and what raises or returns a sentence knows nothing of languages. A sentence with values in it is
found by its pattern: `3 clips, 12 frames` has the msgid `{0} clips, {1} frames`. `make catalogue`
collects the msgids; docs/decisions.md says why it is done here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from posemill.terminal import in_plural

DOMAIN, FOLDER = "posemill", Path(__file__).parent
SETTING = "POSEMILL_LANG"
_HOLE = re.compile(r"\{(\d+)(!r)?\}")
_REPR = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+?)"""
# A pattern of few letters that begins with a value (`{0} of {1}`) is for values of a few words,
# not for any sentence that has its letters somewhere; and its first value is no list.
_SHORT = 12
_FEW, _ITEM = r"((?: ?\S+(?: \S+){0,3})?)", r"((?: ?[^\s,]+(?: [^\s,]+){0,3})?)"
_HELP = re.compile(r"(.*?)(?: \(default: (.*)\))?(?: ?\{([\w.]+:\w+)\})?", re.DOTALL)


def chosen_language() -> str:
    """Return `zh_CN` or `en`: what `POSEMILL_LANG` says, else the locale."""
    names = (SETTING, "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    said = next(filter(None, map(os.environ.get, names)), "")
    is_simplified = re.match(r"zh(?!.*(TW|HK|MO|Hant))", said, re.IGNORECASE)
    return "zh_CN" if is_simplified else "en"


def speak_to_click() -> None:
    """Let the words of click and typer come from our catalogue too; for a process of our own."""
    if (language := chosen_language()) != "en":
        import gettext

        os.environ["LANGUAGE"] = language  # where gettext looks; POSEMILL_LANG is unknown to it
        gettext.bindtextdomain(DOMAIN, str(FOLDER))
        gettext.textdomain(DOMAIN)


def translate(text: str) -> str:
    """Return a sentence in the reader's language; itself where the catalogue has it not.

    A single word stays, as it may be a name out of data: for words of ours there is `word`.
    """
    if chosen_language() == "en" or " " not in text:
        return text
    plural = in_plural(text)
    said = _load(chosen_language()).sentence(plural)
    return text if said == plural else said


def word(text: str) -> str:
    """Return a word or sentence of ours that has no values in it, in the reader's language."""
    if chosen_language() == "en":
        return text
    return _load(chosen_language()).plain.get(text, text)


def split_help(text: str) -> tuple[str, str, str]:
    """Return the sentence of a flag's help, its default, and the table (`module:name`) to list."""
    found = _HELP.fullmatch(text)
    return (found[1], found[2] or "", found[3] or "") if found else (text, "", "")


class _Catalogue:
    """Translations by msgid, and the patterns among them, those that say most first."""

    def __init__(self, messages: dict[str, str]) -> None:
        self.plain = messages
        self._patterns = sorted(filter(_HOLE.search, messages), key=_weight, reverse=True)
        # What is hung on to other text: `; did you mean 'dev'?`
        self._tails = [each for each in self._patterns if each[0] in " ,;"]

    def sentence(self, text: str) -> str:
        """Return the translation of a sentence; the values in it are translated as sentences."""
        if text in self.plain:
            return self.plain[text]
        for pattern in self._patterns:
            if found := _matcher(pattern).fullmatch(text):
                return self._filled(pattern, found.groups())
        for pattern in self._tails:
            if found := re.fullmatch("(.+?)" + _matcher(pattern).pattern, text, re.DOTALL):
                head, *values = found.groups()
                return self._value(head) + self._filled(pattern, values)
        return text

    def _filled(self, pattern: str, values: Sequence[str]) -> str:
        holes = [hole[1] for hole in _HOLE.finditer(pattern)]
        said = dict(zip(holes, map(self._value, values), strict=True))
        return _HOLE.sub(lambda hole: said[hole[1]], self.plain[pattern])

    def _value(self, text: str) -> str:
        return self.sentence(text) if " " in text else text


@cache
def _load(language: str) -> _Catalogue:
    import gettext

    found = gettext.translation(DOMAIN, str(FOLDER), [language], fallback=True)
    messages = vars(found).get("_catalog", {})
    return _Catalogue({key: said for key, said in messages.items() if key})


def _weight(pattern: str) -> tuple[int, int]:
    """Return what is tried first: a sentence known by its beginning, then by most letters."""
    found = _HOLE.search(pattern)
    return found.start() if found else 0, _literal_length(pattern)


def _literal_length(pattern: str) -> int:
    return len(_HOLE.sub("", pattern))


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    expression, start = "", 0
    is_short = pattern[0] == "{" and _literal_length(pattern) < _SHORT
    for hole in _HOLE.finditer(pattern):
        expression += re.escape(pattern[start : hole.start()])
        value = (_FEW if hole.start() else _ITEM) if is_short else "(.*?)"
        expression += _REPR if hole[2] else value
        start = hole.end()
    return re.compile(expression + re.escape(pattern[start:]), re.DOTALL)
