"""The reader's language: English, or Chinese by a gettext catalogue of templates.

Errors, logs, JSON and files are English. Only what prints looks up a translation: a message by its
template (`posemill.messages.render`), a text without values by itself (`translate`).
`make catalogue` collects the templates; docs/decisions.md says why it is done here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

DOMAIN, FOLDER = "posemill", Path(__file__).parent
SETTING = "POSEMILL_LANG"


def chosen_language() -> str:
    """Return `zh_CN` or `en`: what `POSEMILL_LANG` says, else the locale."""
    names = (SETTING, "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    setting = next(filter(None, map(os.environ.get, names)), "")
    is_simplified = re.match(r"zh(?!.*(TW|HK|MO|Hant))", setting, re.IGNORECASE)
    return "zh_CN" if is_simplified else "en"


def load_catalogue(language: str = "") -> Mapping[str, str]:
    """Return the translations by template, by default in the reader's language; none of English."""
    language = language or chosen_language()
    return {} if language == "en" else _load(language)


def translate(text: str) -> str:
    """Return a word or sentence of ours in the reader's language; itself if nobody translated it.

    Text of users never goes through here: it may be a word of ours by chance.
    """
    return load_catalogue().get(text) or text


@cache
def _load(language: str) -> dict[str, str]:
    import gettext

    translations = gettext.translation(DOMAIN, str(FOLDER), [language], fallback=True)
    messages: dict[str, str] = vars(translations).get("_catalog", {})
    return {template: text for template, text in messages.items() if template}
