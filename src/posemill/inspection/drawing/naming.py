"""Files for pictures of clips: clip names come from data and must not lead anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posemill.errors import PosemillError
from posemill.files import mark_output, new_folders, safe_parts


def safe_path(folder: Path, *names: str, suffix: str) -> Path:
    """Return a path below `folder` for a thing named by `names`, each of which may hold slashes.

    `..`, absolute paths, drive letters and characters some file system refuses become harmless; a
    name that had to be changed gets a hash of the original, so two names never share a file.

    Args:
        folder: Below it the path will be.
        names: For instance split and clip; each becomes one or more folders, the last the file.
        suffix: Added to the last name as it is, for instance `_frame000012.png`.

    Raises:
        PosemillError: A link inside the folder leads out of it.
    """
    parts = [part for name in names for part in safe_parts(name)]
    target = folder.joinpath(*parts[:-1], parts[-1] + suffix)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise PosemillError(
            "{target} leads out of {folder} by a link; choose another folder",
            target=target,
            folder=folder,
        )
    return target


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is written inside the block; say what was in the way."""
    if path.is_dir():
        raise PosemillError("{path} is a folder; name a file", path=path)
    new = [each for each in path.parents if not each.exists()]
    try:
        with new_folders(path.parent):
            yield
        if new and path.suffix != ".html":  # a page is not what data are looked for among
            mark_output(new[-1])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PosemillError(
            "{path} cannot be written: {reason}; choose another place", path=path, reason=reason
        ) from error
