"""The tables of docs/benchmarks.md, written between markers; the text around them is by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure

HEADER = ("what", "command", "wanted", "measured", "spread", "held")


@dataclass(frozen=True)
class Row:
    """What is known of a figure: a value, or the reason why there is none."""

    figure: Figure
    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    problem: str = ""  # "not run: …" or "failed: …"

    @property
    def measured(self) -> str:
        """The value with its unit, or why there is none."""
        return self.problem if self.value is None else self.figure.show(self.value)

    @property
    def spread(self) -> str:
        """Between which values the rounds lay."""
        if self.low is None or self.high is None or self.low == self.high:
            return ""
        return f"{self.figure.show(self.low)} to {self.figure.show(self.high)}"

    @property
    def held(self) -> str:
        """Yes, no, or nothing where nothing is wanted or known."""
        holds = None if self.value is None else self.figure.holds(self.value)
        return {True: "yes", False: "**no**", None: ""}[holds]


def write_tables(text: str, rows: Sequence[Row], machine: dict[str, str]) -> str:
    """Return the page with the tables of all sections written anew."""
    tables = {"machine": _table(("", ""), list(machine.items()))}
    for section in dict.fromkeys(row.figure.section for row in rows):
        tables[section] = _figures([row for row in rows if row.figure.section == section])
    for name, table in tables.items():
        marked = re.compile(rf"(<!-- bench:{name} -->\n).*?(<!-- /bench -->)", re.S)
        if len(marked.findall(text)) != 1:
            raise ValueError(
                f"expected one `<!-- bench:{name} -->` … `<!-- /bench -->` in the page, found "
                f"{len(marked.findall(text))}; add it where the table of {name!r} should be"
            )
        begin, end = marked.search(text).span()  # type: ignore[union-attr]
        text = f"{text[:begin]}<!-- bench:{name} -->\n{table}\n<!-- /bench -->{text[end:]}"
    return text


def _figures(rows: Sequence[Row]) -> str:
    cells, last = [], ""
    for row in rows:
        command = row.figure.benchmark.command
        measured = row.measured if row.value is None else f"**{row.measured}**"
        if row.note and row.value is not None:
            measured += f": {row.note}"
        shown = "same" if command == last else f"`{command}`"
        cells.append(
            (row.figure.what, shown, row.figure.wanted, measured, row.spread, row.held)
        )  # fmt: skip
        last = command
    return _table(HEADER, cells)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
