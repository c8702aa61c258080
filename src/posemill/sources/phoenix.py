"""The layout of PHOENIX-2014-T: frames by split, glosses and translations in corpus files."""

from __future__ import annotations

import os
from pathlib import Path

from posemill.errors import ContentError, SourceError
from posemill.files import readable
from posemill.messages import Message
from posemill.places import uri_of
from posemill.records import Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.scan import scan
from posemill.tables import read_table

_FRAMES_FOLDER = "fullFrame-210x260px"
_COLUMNS = ("name", "speaker", "orth", "translation")


def find_frames_folder(path: str) -> Path | None:
    """Return where the frames of all splits are, for the release, `PHOENIX-2014-T` or they."""
    root = Path(path)
    # `a/..` is not `..`, so the name is not that of the real path.
    if Path(os.path.abspath(path)).name == _FRAMES_FOLDER:  # noqa: PTH100
        return root
    for folder in (".", "PHOENIX-2014-T", "PHOENIX-2014-T-release-v3/PHOENIX-2014-T"):
        frames = root / folder / "features" / _FRAMES_FOLDER
        if frames.is_dir():
            return frames
    return root / _FRAMES_FOLDER if (root / _FRAMES_FOLDER).is_dir() else None


def find(path: str, collector: Collector) -> ClipList:
    """Return one clip for each video of the corpus, its glosses as label if it is annotated."""
    if uri_of(path) is not None:
        raise SourceError(
            "{uri}: PHOENIX-2014-T is read from a disk; at a URI say {--layout:frames}, or "
            "give a list of its folders",
            uri=path,
        )
    frames = find_frames_folder(path)
    if frames is None:
        raise SourceError(
            "{path!r} is not PHOENIX-2014-T: expected features/{frames_folder} in it or in "
            "its folder PHOENIX-2014-T; point at the release, at PHOENIX-2014-T or at "
            "{frames_folder}",
            path=readable(path),
            frames_folder=_FRAMES_FOLDER,
        )
    above = Path(os.path.abspath(frames)).parent.parent  # noqa: PTH100
    for split in ("train", "dev", "test"):
        if (frames / split).is_dir() and collector.wants(split):
            corpus = above / "annotations" / "manual" / f"PHOENIX-2014-T.{split}.corpus.csv"
            _add_split(frames / split, split, _read_corpus(corpus), collector)
    return collector.finish(f"{_FRAMES_FOLDER}/{{train,dev,test}}/<name>/*.png")


def _add_split(
    frames: Path, split: str, rows: dict[str, dict[str, str]] | None, collector: Collector
) -> None:
    names = set()
    for folder in scan(os.fspath(frames), collector):
        # A clip is `<name>` or, in some copies, `<name>/1`.
        if folder.num_pictures == 0 or not folder.parts or folder.parts[1:] not in ((), ("1",)):
            collector.num_ignored += folder.num_pictures or 0
            collector.problems.append(
                Message("{path!r} is not where a clip should be", path=readable(folder.path))
            )
            continue
        name = readable(folder.parts[0])
        names.add(name)
        row = (rows or {}).get(name, {})
        clip = Clip(
            name,
            folder.path,
            "frames",
            split,
            num_frames=folder.num_pictures,
            label=row.get("orth"),
            extra={key: row[key] for key in ("speaker", "translation") if row},
            version=folder.version,
        )
        collector.add(clip)
    if rows is None:
        collector.problems.append(
            Message("{split}: no corpus file, so no glosses and no translations", split=split)
        )
        return
    no_frames = "{split}: {number:clip|clips} annotated but without frames: {names}"
    no_row = "{split}: {number:clip|clips} with frames but not annotated: {names}"
    for template, odd in ((no_frames, rows.keys() - names), (no_row, names - rows.keys())):
        if odd:
            shown = ", ".join(sorted(odd)[:3]) + (" …" if len(odd) > 3 else "")
            collector.problems.append(Message(template, split=split, number=len(odd), names=shown))


def _read_corpus(path: Path) -> dict[str, dict[str, str]] | None:
    """Return the rows of a corpus file by name, None if there is no such file."""
    if not path.is_file():
        return None
    rows: dict[str, dict[str, str]] = {}
    try:
        for line, row in read_table(path, names=_COLUMNS, encoding="utf-8-sig"):
            if missing := ", ".join(sorted({*_COLUMNS} - row.keys())):
                raise ContentError("line 1: columns that are missing: {columns}", columns=missing)
            if rows.setdefault(row["name"], row) is not row:
                template = "line {line}: {name!r} for the second time"
                raise ContentError(template, line=line, name=row["name"])
    except ContentError as error:
        raise SourceError("{path}, {error}", path=path, error=error) from error
    return rows
