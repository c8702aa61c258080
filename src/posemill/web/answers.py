"""What is sent: JSON that every browser takes, and what errors become."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from posemill.errors import ConfigError, PosemillError
from posemill.language import translate

# What reading the files of a stranger may raise: a broken run is shown with its reason.
READ_ERRORS = (
    PosemillError, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
    RecursionError, sqlite3.Error,
)  # fmt: skip
_MOST_MESSAGE = 2000


class JsonAnswer(Response):
    """A value as JSON; numbers that JSON has not are null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, default=str)
        return text.encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """Return a value without NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def reason_of(error: BaseException) -> str:
    """Return what is wrong, in words."""
    text = str(error) if isinstance(error, PosemillError) else f"{type(error).__name__}: {error}"
    return text[:_MOST_MESSAGE]


def answer_error(request: Request, error: Exception) -> Response:
    """Return the answer to a question that cannot be answered: 404, with the reason."""
    return JsonAnswer({"reason": say_to(request, reason_of(error))}, 404)


def say_to(request: Request, text: str) -> str:
    """Return a sentence of ours in the language that the page is read in."""
    is_chinese = request.headers.get("accept-language", "").startswith("zh")
    return translate(text, "zh_CN") if is_chinese else text


def text_of(request: Request, name: str, default: str = "") -> str:
    """Return a word of the address."""
    return request.query_params.get(name, default)[:4096]


def number_of(
    request: Request, name: str, default: float, *, least: float = 0, most: float = 1e9
) -> float:
    """Return a number of the address, within its limits.

    Raises:
        ConfigError: It is none.
    """
    text = request.query_params.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError as error:
        raise ConfigError(f"{name}: expected a number, got {text[:80]!r}") from error
    if not math.isfinite(value):
        raise ConfigError(f"{name}: expected a number, got {text[:80]!r}")
    return min(max(value, least), most)


def whole_of(request: Request, name: str, default: int, *, least: int = 0, most: int) -> int:
    """Return a whole number of the address, within its limits."""
    return int(number_of(request, name, default, least=least, most=most))
