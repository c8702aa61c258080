"""Files beside the pictures: `train/annotation` in the dataset that `train/frames` lies in."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from posemill.errors import FormatError
from posemill.formats.shared.contract import Format, Recipe, Summary
from posemill.formats.shared.folders import INDEX, read_index
from posemill.outputs import Outputs
from posemill.records import PoseClip


def goes_beside(out: Path, recipe: Recipe) -> bool:
    """Return whether new folders go into a folder of the user's, among what is there."""
    is_of_user = out.is_dir() and any(out.iterdir()) and not (out / INDEX).exists()
    return bool(recipe.replace) and is_of_user


def write_beside(
    form: Format, clips: Iterator[PoseClip], out: Path, *, recipe: Recipe, outputs: Outputs
) -> Summary:
    """Write the folders with new names into a dataset; nothing else in it is touched.

    Each of them is whole or not there, and has an index of its own.

    Raises:
        ConfigError: One of them is there already, and is not ours.
        FormatError: A clip lies in no folder that has a new name.
    """
    with tempfile.TemporaryDirectory(prefix=".posemill-", dir=out) as temporary:
        made = Path(temporary) / "made"
        summary = form.write(clips, made, recipe=recipe)
        header, *records = read_index(made)
        by_folder: dict[str, list[dict[str, object]]] = {}
        for record in records:
            folder = _new_folder(str(record["place"]), {*recipe.replace.values()})
            by_folder.setdefault(folder, []).append(record)
        for folder in by_folder:
            outputs.claim_folder(out / folder, marker=INDEX)
        for folder, own_records in by_folder.items():
            _write_index(made / folder, [header, *(_below(folder, each) for each in own_records)])
            target = out / folder
            if target.exists():
                target.rename(Path(temporary) / "old")
                shutil.rmtree(Path(temporary) / "old")
            target.parent.mkdir(parents=True, exist_ok=True)
            (made / folder).rename(target)
            outputs.record(target)
    summary.path = out
    return summary


def _new_folder(place: str, names: set[str]) -> str:
    """Return the path of a clip's files up to the folder that has a new name."""
    parts = PurePosixPath(place).parts
    for number, part in enumerate(parts, start=1):
        if part in names:
            return "/".join(parts[:number])
    raise FormatError(
        "{--replace}: {place!r} lies in no folder called {names}, and {--out} is a "
        "folder with other files; choose a new folder",
        place=place,
        names=" or ".join(sorted(names)),
    )


def _below(folder: str, record: dict[str, object]) -> dict[str, object]:
    place = PurePosixPath(str(record["place"])).relative_to(folder).as_posix()
    return {**record, "place": "" if place == "." else place}


def _write_index(folder: Path, lines: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / INDEX).write_text(text, encoding="utf-8")
