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

from posemill.terminal import in_singular

DOMAIN, FOLDER = "posemill", Path(__file__).parent
SETTING = "POSEMILL_LANG"
_HOLE = re.compile(r"\{(\d+)(!r)?\}")
_REPR = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+?)"""
# A pattern of few letters that begins with a value (`{0} of {1}`) is for values of a few words,
# not for any sentence that has its letters somewhere; and its first value is no list.
_SHORT = 12
_FEW, _ITEM = r"((?: ?\S+(?: \S+){0,3})?)", r"((?: ?[^\s,]+(?: [^\s,]+){0,3})?)"
# Nor is what a sentence begins with another one before it.
_FIRST, _HEAD = r"((?:(?!; |\n).)*?)", "(.+?)"
_PHRASE = re.compile(r"[\w,:] [a-z]{2,}")  # words of a sentence: no number with its unit, no name
# What is counted: `1 clip is` is found by the pattern `{0} clips are`.
_THINGS = re.compile(r"^ ([a-z]{4,}s(?: are| were| have| stand)?)\b")


def chosen_language() -> str:
    """Return `zh_CN` or `en`: what `POSEMILL_LANG` says, else the locale."""
    names = (SETTING, "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    said = next(filter(None, map(os.environ.get, names)), "")
    is_simplified = re.match(r"zh(?!.*(TW|HK|MO|Hant))", said, re.IGNORECASE)
    return "zh_CN" if is_simplified else "en"


def translate(text: str, language: str = "") -> str:
    """Return a sentence in the reader's language; itself where the catalogue has it not.

    A single word stays, as it may be a name out of data: for words of ours there is `word`.
    A `language` is that of somebody who reads elsewhere, in a browser.
    """
    from posemill.messages import Message, render

    if isinstance(text, Message):
        return render(text, language=language)
    language = language or chosen_language()
    if language == "en" or " " not in text:
        return text
    return _load(language).sentence(text)


def load_catalogue(language: str = "") -> dict[str, str]:
    """Return the translations by template: none for English."""
    language = language or chosen_language()
    return {} if language == "en" else _load(language).plain


def word(text: str) -> str:
    """Return a word or sentence of ours that has no values in it, in the reader's language."""
    if chosen_language() == "en":
        return text
    return _load(chosen_language()).plain.get(text, text)


class _Catalogue:
    """Translations by msgid, and the patterns among them, those that say most first."""

    def __init__(self, messages: dict[str, str]) -> None:
        self.plain = messages
        patterns = sorted(filter(_HOLE.search, messages), key=_weight, reverse=True)
        # Some are hung on to other text: `; did you mean 'dev'?`
        found = [(each, "") for each in patterns] + [(each, _HEAD) for each in patterns
                                                     if each[0] in " ,;"]  # fmt: skip
        self._candidates = sorted(found, key=lambda each: _is_short(each[0]))

    def sentence(self, text: str) -> str:
        """Return the translation of a sentence; the values in it are translated as sentences."""
        if text in self.plain:
            return self.plain[text]
        for pattern, head in self._candidates:
            if (found := _match(pattern, text, head)) and (said := self._filled(pattern, found)):
                return said
        # Several sentences, each known or not.
        for mark, chinese in (("\n", "\n"), ("; ", "；")):
            if mark in text:
                return chinese.join(map(self._value, text.split(mark)))
        return text

    def _filled(self, pattern: str, values: Sequence[str]) -> str:
        """Return the translation with its values; empty where few letters met by chance."""
        translated = [self._value(value) for value in values]
        if _is_short(pattern) and any(map(_is_unknown, values, translated)):
            return ""
        holes = [hole[1] for hole in _HOLE.finditer(pattern)]
        head = "".join(translated[: len(values) - len(holes)])
        said = dict(zip(holes, translated[-len(holes) :], strict=True))
        return head + _HOLE.sub(lambda hole: said[hole[1]], self.plain[pattern])

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


def _is_short(pattern: str) -> bool:
    return pattern[0] in "{ ,;" and _literal_length(pattern) < _SHORT


def _is_unknown(text: str, translated: str) -> bool:
    return text == translated and _PHRASE.search(text) is not None


def _match(pattern: str, text: str, head: str) -> Sequence[str] | None:
    """Return the values of a pattern in a text, that of its head first; None: it is another.

    The longest of its letters are looked for first: an expression is compiled only for few texts.
    """
    if _letters(pattern) not in text:
        return None
    found = _matcher(pattern, head).fullmatch(text)
    return found.groups() if found else None


@cache
def _letters(pattern: str) -> str:
    return max((_THINGS.sub("", each) for each in _HOLE.sub("\0", pattern).split("\0")), key=len)


@cache
def _matcher(pattern: str, head: str) -> re.Pattern[str]:
    expression, start = head, 0
    is_few = pattern[0] == "{" and _is_short(pattern) and ": " not in pattern
    for hole in _HOLE.finditer(pattern):
        expression += _literal(pattern[start : hole.start()])
        if hole[2]:
            expression += _REPR
        elif hole.start():
            expression += _FEW if is_few else "(.*?)"
        else:
            expression += _ITEM if is_few else _FIRST
        start = hole.end()
    return re.compile(expression + _literal(pattern[start:]), re.DOTALL)


def _literal(text: str) -> str:
    """Return what matches the letters between values: ` clips are` after a 1 is ` clip is`."""
    if found := _THINGS.match(text):
        one = re.escape(in_singular(found[1]))
        return f" (?:{re.escape(found[1])}|{one}){re.escape(text[found.end() :])}"
    return re.escape(text)
