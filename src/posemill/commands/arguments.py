"""What several functions of the door take: paths, how a file is read, how keypoints are written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.config import parse_size
from posemill.errors import ConfigError, FormatError, RunError
from posemill.files import folder_kind, near_path
from posemill.messages import Message
from posemill.outputs import expect_folder
from posemill.places import uri_of
from posemill.settings import Settings, setting

if TYPE_CHECKING:
    from posemill.clips.inputs import ClipInput
    from posemill.formats.shared.contract import Recipe

AnyPath = os.PathLike[str] | str
KINDS: dict[str | None, Message] = {"training": Message("a training"), "sweep": Message("a sweep")}


def text_of(value: object) -> str | None:
    """Return a number as text, `143` for 143; None for None."""
    return None if value is None else str(value)


def renames_of(pairs: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """Return new names of folders by their old ones, out of a mapping or of `OLD=NEW`."""
    if not isinstance(pairs, Sequence):
        return dict(pairs or {})
    renames = {}
    for pair in pairs:
        old, _, new = pair.partition("=")
        if not old or not new:
            raise ConfigError(
                "{--replace}: expected OLD=NEW, as frames=annotation, got {pair!r}", pair=pair
            )
        renames[old] = new
    return renames


class Reading(Settings):
    """How a run or a file is read."""

    splits: tuple[str, ...] | None = setting("Only these splits; all by default.", default=None)
    from_format: str | None = setting(
        "Format of the file; detected by default.",
        default=None,
        flags=("--from",),
        metavar="FORMAT",
        choices="posemill.formats:known_formats",
    )
    size: Any = setting(
        "Size of the pictures, if the file does not hold it.",
        default=None,
        convert=parse_size,
        metavar="WxH",
    )

    def open(self, path: AnyPath, *, person: str = "main") -> ClipInput:
        """Return the run or the file at a path, to be read so."""
        from posemill.clips.inputs import ClipInput

        kind = folder_kind(Path(path))
        try:
            return ClipInput(
                Path(path),
                format_name=None if kind == "extraction" else self.from_format,
                size_wh=self.size,
                splits=self.splits,
                person=person,
            )
        except FormatError as error:
            if kind not in KINDS:
                raise
            raise RunError(
                "{path} is {kind}: expected keypoints, which are in a run of posemill extract or "
                "in an exported file; see how it went by: posemill status {path!q}",
                path=path,
                kind=KINDS[kind],
            ) from error


SKELETON = setting(
    "Points to keep or to write; all, or the format's usual ones, by default. 143 and 543 are "
    "short for holistic-143 and holistic-543.",
    default=None,
    convert=text_of,
    metavar="NAME",
    choices="posemill.skeletons:skeleton_names",
)
PERSON = setting(
    "Of several people in a frame: main (the largest, followed along the clip), a number (2: the "
    "next largest), or all.",
    default="main",
    convert=text_of,
    metavar="WHO",
)
Person = Annotated[str, PERSON]
Skeleton = Annotated[str | None, SKELETON]


class Shape(Reading):
    """How a run or a file is read, and what is done to its keypoints before they are written."""

    skeleton: str | None = SKELETON
    normalize: str = setting(
        "Shoulder midpoint at 0 and shoulder width 1, or the clip's box from -1 to 1.",
        default="none",
        metavar="HOW",
        choices="posemill.records:NORMALIZATIONS",
    )
    interpolate: int = setting(
        "Close gaps of up to N frames by straight lines.", default=0, metavar="N"
    )
    smooth: str = setting(
        "Smooth the keypoints along time.",
        default="none",
        metavar="HOW",
        choices="posemill.records:SMOOTHINGS",
    )
    fill: str | None = setting(
        "Value of missing points, which the mask marks; zero by default.",
        default=None,
        metavar="WHAT",
        choices="posemill.formats.shared.contract:FILLS",
    )
    person: str = PERSON

    def recipe(self) -> Recipe:
        """Return what is done to the keypoints."""
        from posemill.formats.shared.contract import Recipe

        names = ("normalize", "interpolate", "smooth", "fill")
        return Recipe(layout=self.skeleton, **{name: getattr(self, name) for name in names})


class ExportShape(Shape):
    """A shape for formats with a file for each picture, too."""

    replace_folders: Mapping[str, str] = setting(
        "Rename folders: frames=annotation writes train/annotation/x.txt for train/frames/x.jpg"
        " (txt, openpose).",
        default={},
        flat="replace",
        convert=renames_of,
        metavar="OLD=NEW",
    )

    def recipe(self) -> Recipe:
        """Return what is done to the keypoints and to the names of folders."""
        return dataclasses.replace(super().recipe(), replace=self.replace_folders)


def here(out: AnyPath) -> Path:
    """Return the path of what is written to a disk of this machine; a URI is refused."""
    if (uri := uri_of(out)) is not None:
        raise ConfigError(
            "{--out}: {uri} is not on this machine, and only extract writes elsewhere; give a "
            "path, and copy what was written",
            uri=uri,
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
            "{uri}: a file is written to a disk of this machine; give the run a name without "
            "{ending}, and export it by: posemill export RUN --out {name!q}",
            uri=uri,
            ending=path.suffix,
            name=path.name,
        )
    format_for(path)  # says so where the ending could be several
    return path.with_suffix(".run"), path


def run_of(path: AnyPath) -> Path:
    """Return the run that a path means: itself, the one beside the file it was exported to, or in
    the folder that a sweep made for one of its trainings.

    Raises:
        RunError: It is not there, or a file without a run beside it.
    """
    from posemill.runs.home import RunHome
    from posemill.runs.records import PREFIX

    folder = Path(path)
    if uri_of(folder) is not None or (folder / PREFIX).is_dir():
        return RunHome.existing(folder).work
    if folder.is_dir():
        is_of_sweep = folder_kind(folder) == folder_kind(folder / "run") == "training"
        return folder / "run" if is_of_sweep else folder
    beside = folder.with_suffix(".run")
    if folder.suffix and beside.is_dir():
        return beside
    if folder.is_file():
        template = (
            "{path} is a file, and there is no run beside it ({run_name}); see what is in it by: "
            "posemill view {path!q}"
        )
        raise RunError(template, path=folder, run_name=beside.name)
    template = "{path} is not there: expected the folder of a run{near}"
    raise RunError(template, path=folder, near=near_path(folder))
