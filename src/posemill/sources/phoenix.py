"""The layout of PHOENIX-2014-T: frames by split, glosses and translations in corpus files."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

from posemill.errors import SourceError
from posemill.files import readable
from posemill.messages import Message
from posemill.records import Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.scan import Folder, Scan, scan_tree

_FRAMES_FOLDER = "fullFrame-210x260px"
_COLUMNS = ("name", "speaker", "orth", "translation")
_SPLITS = ("train", "dev", "test")


class Places(NamedTuple):
    """Where the frames of all splits and the corpus files are."""

    frames: Path
    annotations: Path


def find_places(path: str) -> Places | None:
    """Return the two folders, for the release, `PHOENIX-2014-T` or its frames; None if neither."""
    root = Path(path)
    inner = Path("PHOENIX-2014-T")
    candidates = [
        root / "features" / _FRAMES_FOLDER,
        root / inner / "features" / _FRAMES_FOLDER,
        root / "PHOENIX-2014-T-release-v3" / inner / "features" / _FRAMES_FOLDER,
        root / _FRAMES_FOLDER,
    ]
    if Path(os.path.abspath(path)).name == _FRAMES_FOLDER:  # noqa: PTH100  (`a/..` is not `..`)
        candidates.append(root)
    for frames in candidates:
        if frames.is_dir():
            above = Path(os.path.abspath(frames)).parent.parent  # noqa: PTH100
            return Places(frames, above / "annotations" / "manual")
    return None


def find(path: str, collector: Collector) -> ClipList:
    """Return one clip for each video of the corpus, its glosses as label.

    A video without annotation is kept, without a label; an annotation without frames cannot be.
    Both are told in `ClipList.problems`.
    """
    places = find_places(path)
    if places is None:
        raise SourceError(
            "{path!r} is not PHOENIX-2014-T: expected features/{frames_folder} in it or in "
            "its folder PHOENIX-2014-T; point at the release, at PHOENIX-2014-T or at "
            "{frames_folder}",
            path=readable(path),
            frames_folder=_FRAMES_FOLDER,
        )
    for split in _SPLITS:
        if (places.frames / split).is_dir() and collector.wants(split):
            scan = scan_tree(os.fspath(places.frames / split))
            rows = _read_corpus(places.annotations / f"PHOENIX-2014-T.{split}.corpus.csv")
            _add_split(scan, split, rows, collector)
    return collector.finish(f"{_FRAMES_FOLDER}/{{train,dev,test}}/<name>/*.png")


def _add_split(
    scan: Scan, split: str, rows: dict[str, dict[str, str]] | None, collector: Collector
) -> None:
    collector.num_ignored += scan.num_ignored
    collector.problems += scan.problems
    seen = set()
    for folder in scan.folders:
        if not _is_clip(folder):
            collector.num_ignored += folder.num_pictures
            collector.problems.append(
                Message("{path!r} is not where a clip should be", path=readable(folder.path))
            )
            continue
        name = readable(folder.parts[0])
        seen.add(name)
        row = (rows or {}).get(name, {})
        extra: dict[str, str] = {key: row[key] for key in ("speaker", "translation") if row}
        clip = Clip(
            name,
            folder.path,
            "frames",
            split,
            num_frames=folder.num_pictures,
            label=row.get("orth"),
            extra=extra,
            version=folder.version,
        )
        collector.add(clip)
    if rows is None:
        collector.problems.append(
            Message("{split}: no corpus file, so no glosses and no translations", split=split)
        )
        return
    without_frames, without_row = rows.keys() - seen, seen - rows.keys()
    templates = {
        "{split}: {number:clip|clips} annotated but without frames: {names}": without_frames,
        "{split}: {number:clip|clips} with frames but not annotated: {names}": without_row,
    }
    for template, names in templates.items():
        if names:
            shown = ", ".join(sorted(names)[:3]) + (" …" if len(names) > 3 else "")
            problem = Message(template, split=split, number=len(names), names=shown)
            collector.problems.append(problem)


def _is_clip(folder: Folder) -> bool:
    """Return whether a folder is `<name>` or, in some copies, `<name>/1`, and holds pictures."""
    below = folder.parts[1:]
    return bool(folder.num_pictures and folder.parts and below in ((), ("1",)))


def _read_corpus(path: Path) -> dict[str, dict[str, str]] | None:
    """Return the rows of a corpus file by name, None if there is no such file."""
    if not path.is_file():
        return None
    rows: dict[str, dict[str, str]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            # Quotation marks are plain characters here: in German text they need not be in pairs.
            reader = csv.DictReader(handle, delimiter="|", quoting=csv.QUOTE_NONE)
            if not {*_COLUMNS} <= {*(header := reader.fieldnames or ())}:
                raise SourceError(
                    "{path}, line 1: expected columns {columns}, got {header}",
                    path=path,
                    columns="|".join(_COLUMNS),
                    header=list(header),
                )
            for row in reader:
                where = {"path": path, "line": reader.line_num}
                if None in row or None in row.values():  # too many, too few
                    template = "{path}, line {line}: expected {number} fields between '|'"
                    raise SourceError(template, number=len(header), **where)
                if row["name"] in rows:
                    template = "{path}, line {line}: {name!r} for the second time"
                    raise SourceError(template, name=row["name"], **where)
                rows[row["name"]] = row
    except UnicodeDecodeError as error:
        raise SourceError(
            "{path} is not UTF-8 ({reason} at byte {start})",
            path=path,
            reason=error.reason,
            start=error.start,
        ) from error
    return rows
