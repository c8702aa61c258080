"""Object stores by obstore: `s3://`, `gs://`, `az://`. Extra `cloud`.

obstore, since it is one small wheel for all three, and the only one of the light libraries that
says create-if-absent in the same way to each of them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from posemill.errors import PlaceError, import_optional
from posemill.places import Entry, Place, changed

_Result = TypeVar("_Result")
_ANSWERS = (AlreadyExistsError, PreconditionError, FileNotFoundError)  # no reason to try again
# obstore tries again within a call; a connection that is torn inside of an answer is ours to mend.
RETRY = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=3)},
}
_CLIENT = {"connect_timeout": "10s", "read_timeout": "20s", "timeout": "15m"}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
TRIES, MOST_SECONDS, PAUSE_SECONDS = 4, 90.0, 0.5
_LIST_CHUNK = 1000
_PIECE_BYTES = 1 << 20
# What the services say in their answers, and what to do about it.
_REFUSED = (
    "{name}: access was refused ({error}): the credentials are wrong, or may not do this; set "
    "{variables}"
)
_NO_CREDENTIALS = "{name}: no credentials were found; set {variables}"
_NO_ANSWER = (
    "{name} does not answer as it should, after several tries ({error}); everything committed so "
    "far is safe: run the same command again when it does"
)
_EXPIRED = (
    "{name}: the credentials have expired; get new ones and set {variables}, then run the same "
    "command again"
)
_NO_BUCKET = "{name}: there is no bucket {bucket!r}; make it, or look at its name"
_WORDS = {
    _NO_BUCKET: ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"),
    _EXPIRED: ("ExpiredToken", "TokenRefreshRequired", "RequestExpired", "token has expired"),
    _REFUSED: ("403 Forbidden", "401 Unauthorized"),
    _NO_CREDENTIALS: ("169.254.169.254", "metadata.google.internal", "MissingCredential"),
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, AWS_REGION, "
    "AWS_ENDPOINT_URL where they are needed)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS (the file of a service account)",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_TOKEN)",
}


class ObjectPlace(Place):
    """A prefix of a bucket."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.scheme, _, rest = uri.partition("://")
        self.bucket = rest.partition("/")[0]
        options: dict[str, Any] = {"client_options": {**_CLIENT}, "retry_config": RETRY}
        if self.scheme == "s3":
            endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
            options["client_options"]["allow_http"] = endpoint.startswith("http://")
            options |= _profile()
        try:
            self._store = from_url(uri, **options)
        except (BaseError, ValueError) as error:
            raise PlaceError(
                "{uri} cannot be opened: {error}; expected "
                "{scheme}://BUCKET/PLACE, and set {variables}",
                uri=uri,
                error=_first_line(error),
                scheme=self.scheme,
                variables=_CREDENTIALS[self.scheme],
            ) from error

    def put(self, key: str, content: bytes) -> None:
        """Write an object over what is there."""
        self._call(key, lambda: obstore.put(self._store, key, content, use_multipart=False))

    def create(self, key: str, content: bytes) -> bool:
        """Write an object if there is none."""
        try:
            self._call(key, lambda: obstore.put(self._store, key, content, mode="create"))
        except AlreadyExistsError:
            # Ours, where the answer to an earlier try was lost.
            return self.get(key) == content
        return True

    def look(self, key: str) -> Entry | None:
        """Return size and etag of an object; None if there is none."""
        with suppress(FileNotFoundError):
            return _entry(self._call(key, lambda: obstore.head(self._store, key)))
        return None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Entry]:
        """Yield the objects below a prefix; a page that fails is asked for again."""
        last, known = after, frozenset[str]()
        while True:
            page = self._call(prefix, partial(self._page, prefix, last))
            yield from (_entry(item) for item in page if item["path"] not in known)
            if len(page) < _LIST_CHUNK:
                return
            # The marker of a folder, `a/`, comes as `a`, and would come again and again behind `a`.
            known = frozenset(item["path"] for item in page)
            last = max(known)

    def _page(self, prefix: str, last: str) -> Sequence[Any]:
        pages = obstore.list(
            self._store, prefix.rstrip("/") or None, offset=last or None, chunk_size=_LIST_CHUNK
        )
        return cast("Sequence[Any]", next(iter(pages), []))

    def delete(self, key: str) -> None:
        """Remove an object."""
        with suppress(FileNotFoundError):
            self._call(key, lambda: obstore.delete(self._store, key))

    def read(self, key: str, version: str | None = None) -> Iterator[bytes]:
        """Yield an object in pieces; after a torn connection from where it was torn."""
        offset = 0
        for number in range(TRIES):
            options: dict[str, Any] = {"range": {"offset": offset}} if offset else {}
            if version is not None:
                options["if_match"] = version
            try:
                answer = self._call(
                    key, partial(obstore.get, self._store, key, options=cast(Any, options))
                )
                version = answer.meta["e_tag"] or version
                for piece in answer.stream(min_chunk_size=_PIECE_BYTES):
                    offset += len(piece)
                    yield bytes(piece)
                return
            except (FileNotFoundError, PreconditionError) as error:
                raise changed(self.name_of(key)) from error
            except BaseError as error:
                if number == TRIES - 1:
                    raise self._error(key, error) from error

    def _call(self, key: str, call: Callable[[], _Result]) -> _Result:
        """Return what a call does, tried again within bounds; errors that say what to do."""
        started = time.monotonic()
        for number in range(TRIES):
            try:
                return call()
            except (BaseError, OSError) as error:
                template = _template_of(error)
                if isinstance(error, _ANSWERS) and template != _NO_BUCKET:
                    raise
                is_over = time.monotonic() - started > MOST_SECONDS or number == TRIES - 1
                is_final = template in (_NO_BUCKET, _EXPIRED, _REFUSED)
                if is_over or is_final or "400 Bad Request" in str(error):
                    raise self._error(key, error) from error
                time.sleep(random.uniform(0.5, 1.0) * PAUSE_SECONDS * 2**number)
        raise AssertionError  # the last try returns or raises

    def _error(self, key: str, error: Exception) -> PlaceError:
        _, has_code, behind = str(error).partition("<Code>")
        return PlaceError(
            _template_of(error),
            name=self.name_of(key),
            variables=_CREDENTIALS[self.scheme],
            bucket=self.bucket,
            error=behind.partition("</Code>")[0] if has_code else _first_line(error),
        )


def _profile() -> dict[str, Any]:
    """Return what reads `~/.aws`, which obstore does not by itself, if it is to be read."""
    has_keys = "AWS_ACCESS_KEY_ID" in os.environ
    has_profile = "AWS_PROFILE" in os.environ or (Path.home() / ".aws" / "credentials").is_file()
    if has_keys or not has_profile:
        return {}
    import_optional("boto3")
    from obstore.auth.boto3 import Boto3CredentialProvider

    return {"credential_provider": Boto3CredentialProvider()}


def _entry(item: Any) -> Entry:
    return Entry(item["path"], item["size"], item["e_tag"] or "", item["last_modified"].timestamp())


def _template_of(error: Exception) -> str:
    text = str(error)
    said = (template for template, words in _WORDS.items() if any(word in text for word in words))
    template = next(said, _NO_ANSWER)
    is_refusal = isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError)
    return _REFUSED if is_refusal and template not in (_NO_BUCKET, _EXPIRED) else template


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
