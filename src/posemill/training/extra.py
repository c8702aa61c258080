"""What the training half needs beside the base install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from posemill.errors import MissingExtraError

_PACKAGES = ("torch", "safetensors", "matplotlib")


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """Say which extra brings a package that an import inside the block does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError(
            "training needs {name!r}; run: pip install 'posemill[train]'", name=error.name
        ) from error
