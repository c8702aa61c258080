"""What is sent: JSON that every browser takes, and what errors become."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from posemill.errors import ConfigError, PosemillError
from posemill.messages import Message, render

# What a question that cannot be answered raises.
ASKED_ERRORS = (PosemillError, OSError, ValueError, sqlite3.Error)
# What reading the files of a stranger may raise: a broken run is shown with its reason.
READ_ERRORS = (
    *ASKED_ERRORS,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_MOST_MESSAGE = 2000
_language = ContextVar("language", default="en")
_logger = logging.getLogger(__name__)


class JsonAnswer(Response):
    """A value as JSON; numbers that JSON has not are null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, default=str)
        return text.encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """Return a value without NaN and infinities, messages in the language of the page."""
    if isinstance(value, Message):
        return render(value, language=_language.get())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def reason_of(error: BaseException) -> str:
    """Return what is wrong, in words."""
    if isinstance(error, PosemillError):
        return error.sentence
    return f"{type(error).__name__}: {error}"[:_MOST_MESSAGE]


def refusal(reason: str, status: int) -> JsonAnswer:
    """Return the answer that says why there is none."""
    return JsonAnswer({"reason": reason}, status)


def answer_error(request: Request, error: Exception) -> Response:
    """Return the answer to a question that cannot be answered: 404, with the reason."""
    with page_language(request):
        return refusal(reason_of(error), 404)


def answer_fault(request: Request, error: Exception) -> Response:
    """Return the answer where our own code failed: 500; its traceback goes to the log."""
    _logger.error("%s %s", request.method, request.url.path, exc_info=error)
    return refusal(reason_of(error), 500)


@contextmanager
def page_language(request: Request) -> Iterator[None]:
    """Say messages of the answers made inside the block in the language the page is read in."""
    is_chinese = request.headers.get("accept-language", "").startswith("zh")
    token = _language.set("zh_CN" if is_chinese else "en")
    try:
        yield
    finally:
        _language.reset(token)


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
