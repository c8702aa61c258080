"""Tables of text as people have them: lists of clips and their labels.

Comma, semicolon, tab or `|` between the columns; UTF-8 with and without a mark, UTF-16, GBK; the
columns called `video_id`, `Video_ID` or `Video ID`.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posemill.errors import ContentError

_DELIMITERS = (",", ";", "\t", "|")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
_PIECE = 1 << 20  # characters
GBK = "gb18030"  # holds GBK and GB2312


class Line(NamedTuple):
    """A row: the number of its line, and its fields by column."""

    number: int
    values: dict[str, str]


def plain_name(column: str) -> str:
    """Return a column's name without capitals, blanks, `_` and `-`, to compare it with another."""
    return re.sub(r"[\s_-]", "", column.lower())


def find_encoding(path: Path) -> str | None:
    """Return the encoding of a text file, None where it is none that we know.

    `GBK` is returned for what is not UTF-8 and could be that, or names of files in another
    encoding. A spreadsheet is a ContentError.
    """
    with path.open("rb") as handle:
        head = handle.read(512)
    if head.startswith(b"PK\x03\x04") or head.startswith(b"\xd0\xcf\x11\xe0"):
        raise ContentError("is a spreadsheet; save it as CSV (UTF-8) and name that file")
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:  # UTF-16 without a mark: every other byte of a header is zero
        return "utf-16-le" if head[1:2] == b"\0" else "utf-16-be" if head[:1] == b"\0" else None
    return next((each for each in ("utf-8", GBK) if _is_encoded(path, each)), None)


def _is_encoded(path: Path, encoding: str) -> bool:
    try:
        with path.open(encoding=encoding, newline="") as handle:
            while handle.read(_PIECE):
                pass
    except UnicodeDecodeError:
        return False
    return True


def read_table(
    path: Path, *, names: Sequence[str], encoding: str, errors: str = "strict"
) -> Iterator[Line]:
    """Yield the rows of a table under its first line; `errors` as `open` has it.

    Columns that the caller knows by `names` are given by these, however they are spelt; one of them
    has to stand in the first line, whatever separates them, and all rows have to fit it, or else it
    is a ContentError.
    """
    with path.open(encoding=encoding, errors=errors, newline="") as handle:
        try:
            header, rows = split_lines(handle, names=names)
            for number, fields in rows:
                yield Line(number, dict(zip(header, fields, strict=False)))
        except UnicodeError as error:
            template = "is not {encoding} text: {error}"
            raise ContentError(template, encoding=encoding.upper(), error=error) from error


def split_lines(
    lines: Iterable[str], *, names: Sequence[str]
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the columns of a table, and the number and fields of each row; see `read_table`."""
    lines = iter(lines)
    first, num_skipped = next(lines, ""), 1
    if told := re.fullmatch(r"\"?sep=(.)\"?\s*", first):  # Excel's own word for what separates
        first, num_skipped = next(lines, ""), 2
    delimiter, header = _split_header(first, names, told[1] if told else "")
    if len({plain_name(name) for name in header}) < len(header):
        template = "line {line}: a column twice in {header}"
        raise ContentError(template, line=num_skipped, header=header)
    return header, _rows(_reader(lines, delimiter), len(header), num_skipped)


def _rows(reader: Any, num_columns: int, num_skipped: int) -> Iterator[tuple[int, list[str]]]:
    try:
        for fields in reader:
            number = num_skipped + reader.line_num
            if not any(field.strip() for field in fields):
                continue
            if any(field.strip() for field in fields[num_columns:]) or len(fields) < num_columns:
                raise ContentError(
                    "line {number}: expected {num_columns} fields as in the first line, got "
                    "{num_fields}",
                    number=number,
                    num_columns=num_columns,
                    num_fields=len(fields),
                )
            yield number, fields
    except csv.Error as error:
        number = num_skipped + reader.line_num
        raise ContentError("line {line}: {error}", line=number, error=error) from error


def _reader(lines: Iterable[str], delimiter: str) -> Any:
    # Files with `|` never quote: a lone " in a sentence is a character.
    if delimiter == "|":
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _split_header(first: str, names: Sequence[str], told: str) -> tuple[str, list[str]]:
    known = {plain_name(name): name for name in names}
    columns: list[str] = []
    for delimiter in (told,) if told else _DELIMITERS:
        try:
            fields: list[str] = next(_reader([first], delimiter), [])
        except csv.Error:
            continue
        found = [name.strip() for name in fields]
        while found and not found[-1]:
            found.pop()  # a separator at the end of the line
        if any(plain_name(name) in known for name in found):
            return delimiter, [known.get(plain_name(name), name) for name in found]
        columns = max(columns, found, key=len)
    raise ContentError(
        "line 1: expected a column {names!r}, got {columns}; columns are separated by a comma, a "
        "semicolon or a tab",
        names=names[0],
        columns=columns,
    )
