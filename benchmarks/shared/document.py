"""The tables of docs/all_benchmarks.md and the headlines of docs/benchmarks.md, between markers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import FIGURES, Figure

HEADER = ("what", "command", "wanted", "measured", "spread", "held", "when")
HEADLINE_HEADER = ("what", "measured", "spread", "command", "when")
NOT_YET = "not run yet"


@dataclass(frozen=True)
class Row:
    """What is known of a figure: a value, or the reason why there is none."""

    figure: Figure
    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    problem: str = ""  # "not run: …" or "failed: …"
    when: str = ""  # date, processor, load

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
    """Return the page with the tables of all sections written anew.

    A figure that was not run yet keeps the row it has: of another day, perhaps another machine.
    """
    text = _replace(text, "machine", lambda _: _table(("", ""), list(machine.items())))
    for section in dict.fromkeys(row.figure.section for row in rows):
        own = [row for row in rows if row.figure.section == section]
        text = _replace(text, section, lambda before, own=own: _figures(own, before))  # type: ignore[misc]
    return text


def write_headlines(page: str, all_tables: str, headlines: Mapping[str, str]) -> str:
    """Return the short page with the rows of some figures, as the page of all tables has them."""
    rows = []
    for figure in FIGURES:
        [section] = _marked(figure.section).findall(all_tables)
        cells = _read_cells(section).get((figure.what, 0))
        if figure.name in headlines and cells:
            _, command, _, measured, spread, _, when = cells
            rows.append((headlines[figure.name], measured, spread, command, when))
    return _replace(page, "headlines", lambda _: _table(HEADLINE_HEADER, rows))


def _replace(text: str, name: str, write: Callable[[str], str]) -> str:
    marked = _marked(name)
    found = marked.findall(text)
    if len(found) != 1:
        raise ValueError(
            f"expected one `<!-- bench:{name} -->` … `<!-- /bench -->` in the page, found "
            f"{len(found)}; add it where the table of {name!r} should be"
        )
    table = f"<!-- bench:{name} -->\n{write(found[0])}\n<!-- /bench -->"
    return marked.sub(lambda _: table, text)


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- bench:{name} -->\n(.*?)<!-- /bench -->", re.S)


def _figures(rows: Sequence[Row], before: str) -> str:
    old = _read_cells(before)
    cells, last, seen = [], "", Counter[str]()
    for row in rows:
        own = _cells(row)
        place = own[0], seen[own[0]]
        seen[own[0]] += 1
        if row.problem == NOT_YET:
            if place not in old:
                continue  # the page shows what was measured
            own = old[place]
        shown = "same" if own[1] == last else own[1]
        last = own[1]
        cells.append((own[0], shown, *own[2:]))
    return _table(HEADER, cells)


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.measured if row.value is None else f"**{row.measured}**"
    if row.note and row.value is not None:
        measured += f": {row.note}"
    command = f"`{row.figure.benchmark.command}`"
    return row.figure.what, command, row.figure.wanted, measured, row.spread, row.held, row.when


def _read_cells(table: str) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the rows of a table by their first cell, and which of that name it is."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    last, seen = "", Counter[str]()
    for line in table.splitlines()[2:]:
        what, command, *others = (cell.strip() for cell in line.strip("|").split("|"))
        last = last if command == "same" else command
        others += [""] * (len(HEADER) - 2 - len(others))
        found[what, seen[what]] = (what, last, *others)
        seen[what] += 1
    return found


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
