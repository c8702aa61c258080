"""What the functions take: a path as text or `Path`, one split or several, a size of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from posemill.errors import ConfigError, RunError
from posemill.files import near_path
from posemill.outputs import expect_folder
from posemill.storage import uri_of
from posemill.terminal import quoted

AnyPath = os.PathLike[str] | str
Names = str | Iterable[str] | None
Size = str | tuple[int, int] | None


def names_of(names: Names) -> list[str] | None:
    """Return the names as a list; a single one is one name, not its letters."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)


def parse_size(size: Size) -> tuple[int, int] | None:
    """Return width and height in pixels of `(1280, 720)` or `"1280x720"`; None for None."""
    if size is None:
        return None
    sides = size.lower().split("x") if isinstance(size, str) else [str(side) for side in size]
    if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise ConfigError(f"size: expected WIDTHxHEIGHT such as 1280x720, got {size!r}")
    return int(sides[0]), int(sides[1])


def here(out: AnyPath) -> Path:
    """Return the path of what is written to a disk of this machine; a URI is refused."""
    if (uri := uri_of(out)) is not None:
        raise ConfigError(
            f"out: {uri} is not on this machine, and only runs are written elsewhere (extract, "
            "merge, import, frames); give a path, and copy what was written"
        )
    return Path(out)


def run_and_file(out: AnyPath) -> tuple[Path, Path | None]:
    """Return the folder of a run, and the file its keypoints are asked for in, if one is.

    `keypoints.pkl` is a file: its run is `keypoints.run` beside it. A folder that is there is
    itself, whatever it is called.
    """
    from posemill.formats import file_endings, format_for

    path = Path(out)
    if path.is_dir() or path.suffix.lower() not in file_endings():
        expect_folder(path, kind="a run")
        return path, None
    if (uri := uri_of(path)) is not None:
        raise ConfigError(
            f"{uri}: a file is written to a disk of this machine; give the run a name without "
            f"{path.suffix}, and export it by: posemill export RUN --out {quoted(path.name)}"
        )
    format_for(path)  # says so where the ending could be several
    return path.with_suffix(".run"), path


def run_of(path: AnyPath) -> Path:
    """Return the run that a path means: itself, the one beside the file it was exported to, or in
    the folder that a sweep made for one of its trainings.

    Raises:
        RunError: It is not there, or a file without a run beside it.
    """
    from posemill.stores.records import PREFIX
    from posemill.stores.replica import existing_run

    found = Path(path)
    if uri_of(found) is not None or (found / PREFIX).is_dir():
        return existing_run(found)
    if not found.is_dir() and found.suffix and found.with_suffix(".run").is_dir():
        return found.with_suffix(".run")
    if (found / "config.toml").is_file() and (found / "run" / "run.json").is_file():
        return found / "run"  # a training of a sweep
    if found.is_file():
        raise RunError(
            f"{found} is a file, and there is no run beside it ({found.with_suffix('.run').name}); "
            f"see what is in it by: posemill view {quoted(found)}"
        )
    if not found.exists():
        raise RunError(f"{found} is not there: expected the folder of a run{near_path(found)}")
    return found
