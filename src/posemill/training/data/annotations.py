"""What a clip is: labels.csv (`video_id,label[,split]`) and the corpus files of PHOENIX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of
from posemill.errors import ContentError, TrainingError
from posemill.files import near_path
from posemill.records import usual_split
from posemill.tables import find_encoding, read_table

_ID_COLUMNS = ("video_id", "clip_id", "path", "name", "id")
_LABEL_COLUMNS: tuple[str, ...] = ("label", "class", "gloss")
_GLOSS_COLUMNS: tuple[str, ...] = ("orth", "annotation", "gloss", "label")
_ENDINGS = VIDEO_SUFFIXES | PICTURE_SUFFIXES | {"npy", "npz", "pose"}


class Annotation(NamedTuple):
    """The label (or glosses with spaces), split and group of a clip; '' where unknown."""

    label: str
    split: str = ""
    group: str = ""


# Columns that say whose a clip is, or what was recorded at once, where none was named. Not the
# `speaker` of PHOENIX, whose official splits share all of them.
USUAL_GROUPS = ("signer", "person", "subject", "session", "recorded_at")


class Annotations(dict[str, Annotation]):
    """Annotations by clip id, and the column that says whose a clip is."""

    def __init__(self, rows: Mapping[str, Annotation], group_column: str) -> None:
        super().__init__(rows)
        self.group_column = group_column

    def match(self, clip_ids: Iterable[str]) -> dict[str, Annotation]:
        """Return what is known of each clip.

        By its id; or without its ending, or a `/1` folder, if only one row has that name; or by its
        bare name, if only one row and one clip have it.
        """
        wanted = list(dict.fromkeys(clip_ids))
        found = {clip_id: self[clip_id] for clip_id in wanted if clip_id in self}
        for name_of in (_short_id, _bare_name):
            rows, clips = _by_name(self, name_of), _by_name(wanted, name_of)
            for name, ids in clips.items():
                if len(rows.get(name, ())) == 1 and (name_of is _short_id or len(ids) == 1):
                    for clip_id in ids:
                        found.setdefault(clip_id, self[rows[name][0]])
        return found


def _short_id(clip_id: str) -> str:
    path = PurePosixPath(clip_id.replace("\\", "/"))
    if path.name == "1" and len(path.parts) > 1:
        path = path.parent
    if suffix_of(path.name) in _ENDINGS:
        path = path.with_suffix("")
    return str(path)


def _bare_name(clip_id: str) -> str:
    return PurePosixPath(_short_id(clip_id)).name


def _by_name(clip_ids: Iterable[str], name_of: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for clip_id in clip_ids:
        found.setdefault(name_of(clip_id), []).append(clip_id)
    return found


def read_annotations(path: Path, *, group_column: str = "") -> Annotations:
    """Return the annotations of a labels.csv, of a PHOENIX corpus file, or of a folder of these.

    The release folder above `annotations/manual` will do, too. `group_column` says whose a clip is;
    empty: the first of `USUAL_GROUPS` that there is.
    """
    expect_labels(path)
    files = [path]
    if path.is_dir():
        folders = (path, path / "annotations" / "manual", path / "manual")
        corpora = [sorted(folder.glob("*.corpus.csv")) for folder in folders]
        files = next((found for found in corpora if found), [path / "labels.csv"])
        if not files[0].is_file():
            raise TrainingError(
                "{folder}: expected labels.csv or *.corpus.csv (also in annotations/manual), found "
                "neither",
                folder=path,
            )
    rows: dict[str, Annotation] = {}
    for file in files:
        try:
            found, group_column = _read_rows(file, group_column)
        except ContentError as error:
            raise TrainingError("{path}, {error}", path=file, error=error) from error
        rows.update(found)
    return Annotations(rows, group_column)


def expect_labels(path: Path) -> None:
    """Raise `TrainingError` where there is neither a file nor a folder."""
    if not path.is_dir() and not path.is_file():
        template = "no labels at {path}: expected a CSV file or a folder of corpus files{hint}"
        raise TrainingError(template, path=path, hint=near_path(path))


def _read_rows(path: Path, group_column: str) -> tuple[dict[str, Annotation], str]:
    encoding = find_encoding(path)
    if encoding is None:
        raise TrainingError(
            "{path}: neither UTF-8, UTF-16 nor GBK text; save it as UTF-8", path=path
        )
    groups, is_asked = [group_column] if group_column else USUAL_GROUPS, bool(group_column)
    names = dict.fromkeys((*_ID_COLUMNS, *_LABEL_COLUMNS, *_GLOSS_COLUMNS, "split", *groups))
    is_corpus = path.name.endswith(".corpus.csv")
    parts = path.name.split(".")  # `PHOENIX-2014-T.train.corpus.csv` says train
    split = usual_split(parts[-3]) if is_corpus and len(parts) >= 4 else ""
    id_column = label_column = ""
    rows: dict[str, Annotation] = {}
    for number, row in read_table(path, names=list(names), encoding=encoding):
        if not id_column:
            id_column = _pick(path, row, _ID_COLUMNS)
            group_column = group_column or next((n for n in USUAL_GROUPS if n in row), "")
            is_gloss = is_corpus or "orth" in row
            label_column = _pick(path, row, _GLOSS_COLUMNS if is_gloss else _LABEL_COLUMNS)
        clip_id, label = row[id_column].strip(), row[label_column].strip()
        if not clip_id or not label:
            raise TrainingError(
                "{path}, line {number}: {id_column} or {label_column} is empty",
                path=path,
                number=number,
                id_column=id_column,
                label_column=label_column,
            )
        found = Annotation(
            label,
            usual_split((row.get("split") or split).strip()),
            row.get(group_column, "").strip(),
        )
        before = rows.get(clip_id, found)
        is_same = (before.label, before.split) == (found.label, found.split)
        if not is_same or (is_asked and before.group != found.group):
            raise TrainingError(
                "{path}, line {number}: {clip_id!r} is {label!r} here and {label_above!r} "
                "above; keep one",
                path=path,
                number=number,
                clip_id=clip_id,
                label=found.label,
                label_above=before.label,
            )
        rows[clip_id] = found
    if not rows:
        raise TrainingError(
            "{path}: expected a header such as video_id,label,split and rows below it", path=path
        )
    return rows, group_column


def _pick(path: Path, columns: Iterable[str], wanted: tuple[str, ...]) -> str:
    for name in wanted:
        if name in columns:
            return name
    raise TrainingError(
        "{path}: expected a column {column!r} (or {others}), found {columns}",
        path=path,
        column=wanted[0],
        others=", ".join(wanted[1:]),
        columns=", ".join(columns),
    )
