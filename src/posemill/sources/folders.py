"""Clips in a tree of files: a folder of frames, a video, a picture by itself; PHOENIX-2014-T."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from posemill.decoders.opening import without_suffix
from posemill.errors import ContentError, SourceError
from posemill.files import readable
from posemill.messages import Message
from posemill.places import uri_of
from posemill.records import SPLIT_NAMES, Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.scan import Folder, Kind, file_version, scan
from posemill.tables import read_table

_PICTURES = Message("folders that hold .png, .jpg, .jpeg, .webp, .bmp or .tif files")
_VIDEOS = Message("videos (.mp4, .mov, .avi, .mkv, .webm, .gif …)")
_PHOENIX_FRAMES = "fullFrame-210x260px"
_PHOENIX_COLUMNS = ("name", "speaker", "orth", "translation")


def find_frames(folders: Sequence[Folder], collector: Collector) -> ClipList:
    """Return one clip for each folder that holds pictures.

    With the layout `auto` those directly in the root (or in the folder of a split) are loose.
    """
    collector.num_ignored += sum(len(folder.videos) for folder in folders)
    # Beside clips, a folder `test` that holds pictures itself is a clip of that name.
    first_parts = {folder.parts[0] for folder in folders if folder.num_pictures and folder.parts}
    has_only_splits = all(_split_of((part,))[0] != "all" for part in first_parts)
    kinds: set[str] = set()
    for folder in folders:
        if folder.num_pictures == 0:
            continue
        split, parts = _split_of(folder.parts)
        kind: Kind = "frames"
        if folder.num_pictures is not None:
            if not parts and not has_only_splits:
                split, parts = "all", folder.parts
            if collector.layout == "pictures" or (collector.layout == "auto" and not parts):
                kind = "pictures"
            kinds.add(kind)
        # `a/..` is not `..`, so the root's name is not that of its real path.
        last = folder.parts or (Path(os.path.abspath(folder.path)).name or "root",)  # noqa: PTH100
        collector.add(folder.clip("/".join(parts) or last[-1], kind, split))
    if collector.layout == "auto":
        collector.layout = "frames" if "frames" in kinds else "pictures"
    if len(kinds) == 2:
        collector.say(
            "pictures beside the folders of frames are taken as loose ones, each by itself"
        )
    return collector.finish(_PICTURES)


def find_videos(folders: Sequence[Folder], collector: Collector) -> ClipList:
    """Return one clip for each video file."""
    collector.layout = "videos"
    collector.num_ignored += sum(folder.num_pictures or 0 for folder in folders)
    videos = []
    for folder in folders:
        split, above = _split_of(folder.parts)
        if folder.num_pictures is None:
            videos.append((split, "/".join(above or folder.parts), folder.path, ""))
        for name, version in folder.videos.items():
            path = os.path.join(folder.path, name)  # noqa: PTH118
            videos.append((split, "/".join((*above, name)), path, version))
    # `a/b.mp4` is called `a/b`, unless there is an `a/b.avi` too.
    stems = Counter((split, without_suffix(name)) for split, name, _, _ in videos)
    for split, name, path, version in videos:
        stem = without_suffix(name)
        clip_id = stem if stems[split, stem] == 1 else name
        collector.add(Clip(readable(clip_id), path, "video", split, version=version))
    return collector.finish(_VIDEOS)


def find_files(files: Sequence[str], root: str, collector: Collector) -> ClipList:
    """Return each file of a list as a clip, by its path below the root."""
    videos = []
    for path in files:
        above, name = os.path.split(path)
        parts = Path(above).relative_to(root).parts
        version = file_version(Path(path))
        if collector.layout == "videos":
            videos.append(Folder(above, parts, videos={name: version}))
        else:
            picture = Folder(path, parts, num_pictures=1, version=version)
            collector.add(picture.clip("/".join((*parts, name)), "pictures"))
    return find_videos(videos, collector) if videos else collector.finish(_PICTURES)


def find_phoenix_frames(path: str) -> Path | None:
    """Return where the frames of all splits are, for the release, `PHOENIX-2014-T` or they."""
    root = Path(path)
    # `a/..` is not `..`, so the name is not that of the real path.
    if Path(os.path.abspath(path)).name == _PHOENIX_FRAMES:  # noqa: PTH100
        return root
    corpus = "PHOENIX-2014-T"
    for folder in ("features", f"{corpus}/features", f"{corpus}-release-v3/{corpus}/features", ""):
        if (frames := root / folder / _PHOENIX_FRAMES).is_dir():
            return frames
    return None


def find_phoenix(path: str, collector: Collector) -> ClipList:
    """Return one clip for each video of the corpus, its glosses as label if it is annotated."""
    if uri_of(path) is not None:
        raise SourceError(
            "{uri}: PHOENIX-2014-T is read from a disk; at a URI say {--layout:frames}, or "
            "give a list of its folders",
            uri=path,
        )
    frames = find_phoenix_frames(path)
    if frames is None:
        raise SourceError(
            "{path!r} is not PHOENIX-2014-T: expected features/{frames_folder} in it or in "
            "its folder PHOENIX-2014-T; point at the release, at PHOENIX-2014-T or at "
            "{frames_folder}",
            path=readable(path),
            frames_folder=_PHOENIX_FRAMES,
        )
    above = Path(os.path.abspath(frames)).parent.parent  # noqa: PTH100
    for split in ("train", "dev", "test"):
        if (frames / split).is_dir() and collector.wants(split):
            corpus = above / "annotations" / "manual" / f"PHOENIX-2014-T.{split}.corpus.csv"
            _add_phoenix_split(frames / split, split, _read_corpus(corpus), collector)
    return collector.finish(f"{_PHOENIX_FRAMES}/{{train,dev,test}}/<name>/*.png")


def _add_phoenix_split(
    frames: Path, split: str, rows: dict[str, dict[str, str]] | None, collector: Collector
) -> None:
    names = set()
    for folder in scan(os.fspath(frames), collector):
        # A clip is `<name>` or, in some copies, `<name>/1`.
        if folder.num_pictures == 0 or not folder.parts or folder.parts[1:] not in ((), ("1",)):
            collector.num_ignored += folder.num_pictures or 0
            collector.say("{path!r} is not where a clip should be", path=readable(folder.path))
            continue
        name = readable(folder.parts[0])
        names.add(name)
        row = (rows or {}).get(name, {})
        extra = {key: row[key] for key in ("speaker", "translation") if row}
        collector.add(folder.clip(name, "frames", split, label=row.get("orth"), extra=extra))
    if rows is None:
        collector.say("{split}: no corpus file, so no glosses and no translations", split=split)
        return
    no_frames = "{split}: {number:clip|clips} annotated but without frames: {names}"
    no_row = "{split}: {number:clip|clips} with frames but not annotated: {names}"
    for template, odd in ((no_frames, rows.keys() - names), (no_row, names - rows.keys())):
        if odd:
            shown = ", ".join(sorted(odd)[:3]) + (" …" if len(odd) > 3 else "")
            collector.say(template, split=split, number=len(odd), names=shown)


def _read_corpus(path: Path) -> dict[str, dict[str, str]] | None:
    """Return the rows of a corpus file by name, None if there is no such file."""
    if not path.is_file():
        return None
    rows: dict[str, dict[str, str]] = {}
    try:
        for line, row in read_table(path, names=_PHOENIX_COLUMNS, encoding="utf-8-sig"):
            if missing := ", ".join(sorted({*_PHOENIX_COLUMNS} - row.keys())):
                raise ContentError("line 1: columns that are missing: {columns}", columns=missing)
            if rows.setdefault(row["name"], row) is not row:
                template = "line {line}: {name!r} for the second time"
                raise ContentError(template, line=line, name=row["name"])
    except ContentError as error:
        raise SourceError("{path}, {error}", path=path, error=error) from error
    return rows


def _split_of(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the split that the first folder below the root names, and the rest of the path."""
    if parts and parts[0].lower() in SPLIT_NAMES:
        return parts[0].lower(), parts[1:]
    return "all", parts
