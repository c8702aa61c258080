"""Places: where bytes are. A folder of this machine, a shared folder, an object store.

What is built on them asks for no more than what all promise: an object is put whole or not at all,
and of all who create the same key exactly one succeeds. No rename, no append, no lock. A new kind
is one module and one row in `PLACES`, and passes `posemill.testing.PlaceContract`.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from posemill import plugins
from posemill.errors import PlaceError
from posemill.files import atomic_path
from posemill.machine.disk import disk_message
from posemill.messages import Message

# Scheme of a URI -> "module:class"; other packages: entry points of the group `posemill.places`.
PLACES = {
    "s3": "posemill.places.objects:ObjectPlace",
    "gs": "posemill.places.objects:ObjectPlace",
    "az": "posemill.places.objects:ObjectPlace",
    "file": "posemill.places.folders:FolderPlace",
}
# One slash is what `Path` leaves of two.
_URI = re.compile(r"([a-z][a-z0-9]+):/{1,2}", re.ASCII)


class Entry(NamedTuple):
    """An object as a listing has it."""

    key: str  # below the place, with `/` between its parts
    num_bytes: int
    version: str  # changes whenever the content does: the etag, or what a file system has for it
    modified_at: float  # seconds since 1970, by the clock of the place


class Place(ABC):
    """A place, picklable by its URI; `PlaceError` comes where it refuses or does not answer."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __reduce__(self) -> tuple[type[Place], tuple[str]]:
        return type(self), (self.uri,)

    def name_of(self, key: str = "") -> str:
        """Return what users call it, or an object of it: a URI."""
        return f"{self.uri}/{key}" if key else self.uri

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write an object, whole, over what is there."""

    @abstractmethod
    def create(self, key: str, content: bytes) -> bool:
        """Write an object if there is none; return whether it is this one that is there now.

        A try whose answer was lost counts: the same content there means that it is ours. Whoever
        has to know it was not somebody else's writes something of its own into the content.
        """

    def get(self, key: str) -> bytes | None:
        """Return an object; None if there is none."""
        while True:
            try:
                return b"".join(self.read(key))
            except ChangedError:  # also of one that was replaced meanwhile
                if self.look(key) is None:
                    return None

    @abstractmethod
    def look(self, key: str) -> Entry | None:
        """Return what a listing would say of an object; None if there is none."""

    @abstractmethod
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Entry]:
        """Yield, page by page, the objects behind a key and below a prefix (`x/`), in order."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""

    @abstractmethod
    def read(self, key: str, version: str | None = None) -> Iterator[bytes]:
        """Yield an object in pieces; `ChangedError` if it has not that version, or has gone."""

    def fetch(self, key: str, target: Path, *, version: str | None = None) -> None:
        """Copy an object into a file, whole or not at all; `ChangedError` as `read`."""
        try:
            with atomic_path(target) as temporary, temporary.open("wb") as handle:
                handle.writelines(self.read(key, version))
        except OSError as error:
            saved = Message("{name} was not copied", name=self.name_of(key))
            raise PlaceError(disk_message(error, str(target.parent), saved=saved)) from error


class ChangedError(PlaceError):
    """An object is not the one that was listed."""


def changed(name: str | Path) -> ChangedError:
    """Return the error for an object that is another one by now, or has gone."""
    return ChangedError("{name} was changed or removed since it was listed", name=name)


def uri_of(path: str | os.PathLike[str]) -> str | None:
    """Return the URI that a path means, `s3:/bucket/x` meaning one too; None for a path."""
    text = os.fspath(path)
    match = _URI.match(text)
    if match is None or match[1] not in plugins.names_of("place", PLACES):
        return None
    rest = text[match.end() :].strip("/")
    return f"{match[1]}://{'/' if match[1] == 'file' else ''}{rest}"


def open_place(place: str | os.PathLike[str]) -> Place:
    """Return the place at a URI, or at a folder of a file system that machines share."""
    return _open(uri_of(place) or Path(place).absolute().as_uri())


@lru_cache(maxsize=64)  # a client keeps its connections
def _open(uri: str) -> Place:
    scheme = uri.partition(":")[0]
    return cast(Place, plugins.load("place", PLACES, scheme, extra="cloud")(uri))


def split_uri(uri: str) -> tuple[Place, str]:
    """Return the place and the key of an object's URI: of all in a bucket the same place."""
    scheme, _, rest = uri.partition("://")
    if scheme == "file":
        place, _, key = uri.rpartition("/")
        return open_place(place), key
    bucket, _, key = rest.partition("/")
    return open_place(f"{scheme}://{bucket}"), key
