"""What is sent: JSON that every browser takes, and what errors become."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from posemill.errors import ConfigError, PosemillError
from posemill.files import CORRUPT
from posemill.messages import Message, render

# What a question that cannot be answered raises.
ASKED_ERRORS = (PosemillError, OSError, ValueError, sqlite3.Error)
# What reading the files of a stranger may raise: a broken run is shown with its reason.
READ_ERRORS: tuple[type[Exception], ...] = (*ASKED_ERRORS, *CORRUPT, ArithmeticError)
_MOST_MESSAGE = 2000
_logger = logging.getLogger(__name__)


def json_answer(asked: HTTPConnection, value: Any, status: int = 200) -> Response:
    """Return a value as JSON, its messages in the language that the page is read in."""
    is_chinese = asked.headers.get("accept-language", "").startswith("zh")
    plain = _plain(value, "zh_CN" if is_chinese else "en")
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, default=str)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def _plain(value: Any, language: str) -> Any:
    """Return a value with null for NaN and infinities, and messages in a language."""
    if isinstance(value, Message):
        return render(value, language=language)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, language) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, language) for item in value]
    return value


def reason_of(error: BaseException) -> str:
    """Return what is wrong, in words."""
    if isinstance(error, PosemillError):
        return error.sentence
    return f"{type(error).__name__}: {error}"[:_MOST_MESSAGE]


def refusal(asked: HTTPConnection, reason: str, status: int) -> Response:
    """Return the answer that says why there is none."""
    return json_answer(asked, {"reason": reason}, status)


def answer_error(request: Request, error: Exception) -> Response:
    """Return why a question cannot be answered; where our own code failed, the log has more."""
    if isinstance(error, ASKED_ERRORS):
        return refusal(request, reason_of(error), 404)
    _logger.error("%s %s", request.method, request.url.path, exc_info=error)
    return refusal(request, reason_of(error), 500)


def text_of(request: Request, name: str, default: str = "") -> str:
    """Return a word of the address."""
    return request.query_params.get(name, default)[:4096]


def number_of(
    request: Request, name: str, default: float, *, least: float = 0, most: float = 1e9
) -> float:
    """Return a number of the address, within its limits; ConfigError if it is none."""
    text, value = request.query_params.get(name, ""), math.nan
    with suppress(ValueError):
        value = float(text or default)
    if not math.isfinite(value):
        raise ConfigError("{name}: expected a number, got {text!r}", name=name, text=text[:80])
    return min(max(value, least), most)


def whole_of(request: Request, name: str, default: int, *, least: int = 0, most: int) -> int:
    """Return a whole number of the address, within its limits."""
    return int(number_of(request, name, default, least=least, most=most))
