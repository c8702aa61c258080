"""Files for pictures of clips: clip names come from data and must not lead anywhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posemill.errors import PosemillError
from posemill.files import mark_output, new_folders

_MAX_BYTES = 100  # per folder or file name; file systems take 255
_UNFIT = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


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
    parts = [part for name in names for part in _safe_parts(name)]
    target = folder.joinpath(*parts[:-1], parts[-1] + suffix)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise PosemillError(f"{target} leads out of {folder} by a link; choose another folder")
    return target


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is written inside the block; say what was in the way."""
    if path.is_dir():
        raise PosemillError(f"{path} is a folder; name a file")
    new = [each for each in path.parents if not each.exists()]
    try:
        with new_folders(path.parent):
            yield
        if new and path.suffix != ".html":  # a page is not what data are looked for among
            mark_output(new[-1])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PosemillError(f"{path} cannot be written: {reason}; choose another place") from error


def _safe_parts(name: str) -> list[str]:
    pieces = [piece for piece in re.split(r"[/\\]", name) if piece not in ("", ".", "..")]
    safe = [_safe_piece(piece) for piece in pieces] or ["unnamed"]
    if "/".join(safe) != name:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        safe[-1] += f"~{digest}"
    return safe


def _safe_piece(piece: str) -> str:
    cleaned = _UNFIT.sub("_", piece.encode("utf-8", "replace").decode("utf-8"))
    if _RESERVED.fullmatch(cleaned):
        cleaned = f"_{cleaned}"
    # Windows drops dots and blanks at the end; cut in bytes, not inside of a character.
    return cleaned.encode()[:_MAX_BYTES].decode("utf-8", "ignore").rstrip(". ") or "_"
