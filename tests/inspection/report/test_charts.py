"""Charts mark by mark: where every box, line and word stands."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.inspection.report.charts import (
    bar_chart,
    histogram,
    nice_maximum,
    nice_ticks,
    part_colour,
    short,
    strip_chart,
)


def opening(width: int, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="a &lt;b&gt;" font-size="12" fill="#1d232b">'
    )


def test_parts_have_colours_of_their_own() -> None:
    names = ("pose", "body", "feet", "face", "left_hand", "tail")
    assert [part_colour(name) for name in names] == [
        "#1f6fb2", "#1f6fb2", "#8a6d3b", "#b5589c", "#d98200", "#666",
    ]  # fmt: skip


def test_bars_stand_below_their_headings() -> None:
    bars = [("pose", 50.0, "half"), ("left_hand", 200.0, "&")]
    chart = bar_chart(
        [("one", bars), ("two", [("face", -1.0, "none")])], maximum=100, unit=" %", label="a <b>"
    )
    grid = [
        mark
        for x, tick in zip((130, 234, 338, 442, 546, 650), range(0, 101, 20), strict=True)
        for mark in (
            f'<line x1="{x}.0" y1="6" x2="{x}.0" y2="124" stroke="#dde1e7"/>',
            f'<text x="{x}.0" y="140.0" text-anchor="middle">{tick} %</text>',
        )
    ]
    assert chart == "".join([
        opening(760, 148),
        *grid,
        '<text x="8.0" y="22.0" font-weight="600">one</text>',
        '<text x="122.0" y="47.0" text-anchor="end">pose</text>',
        '<rect x="130.0" y="36.0" width="260.0" height="15.0" fill="#1f6fb2"/>',
        '<text x="396.0" y="47.0">half</text>',
        '<text x="122.0" y="67.0" text-anchor="end">left hand</text>',
        '<rect x="130.0" y="56.0" width="520.0" height="15.0" fill="#d98200"/>',
        '<text x="656.0" y="67.0">&amp;</text>',
        '<text x="8.0" y="92.0" font-weight="600">two</text>',
        '<text x="122.0" y="117.0" text-anchor="end">face</text>',
        '<rect x="130.0" y="106.0" width="0.8" height="15.0" fill="#b5589c"/>',
        '<text x="136.0" y="117.0">none</text>',
        "</svg>",
    ])  # fmt: skip


def test_counts_stand_on_their_bars() -> None:
    chart = histogram(["0-10", "&"], [0, 12345], colour="#123456", x_label="share", label="a <b>")
    assert chart == "".join([
        opening(112, 194),
        '<rect x="18.0" y="150.0" width="36.0" height="0.0" fill="#123456"/>',
        '<text x="36.0" y="164.0" font-size="10" text-anchor="middle">0-10</text>',
        '<rect x="58.0" y="36.0" width="36.0" height="114.0" fill="#123456"/>',
        '<text x="76.0" y="32.0" text-anchor="middle">12.3k</text>',
        '<text x="76.0" y="164.0" font-size="10" text-anchor="middle">&amp;</text>',
        '<text x="16.0" y="12.0" font-size="11">clips</text>',
        '<line x1="16" y1="150" x2="96" y2="150" stroke="#1d232b"/>',
        '<text x="56.0" y="184.0" text-anchor="middle">share</text>',
        "</svg>",
    ])  # fmt: skip
    flat = histogram(["a", "b"], [0, 0], colour="#123456", x_label="", label="")
    assert flat.count('height="0.0"') == 2


def test_strips_show_gaps_where_they_are() -> None:
    strip = np.array([0, 0, 255, 255, 255, 51, 0, 255], np.uint8)
    empty = np.zeros(0, np.uint8)
    chart = strip_chart([("face", strip), ("pose", empty)], label="a <b>")
    assert chart == "".join([
        opening(480, 19),
        '<rect x="0.0" y="0.0" width="480.0" height="7.0" fill="#eceff3"/>',
        '<rect x="120.0" y="0.0" width="180.0" height="7.0" fill="#b5589c"/>',
        '<rect x="300.0" y="0.0" width="60.0" height="7.0" fill="#b5589c" fill-opacity="0.32"/>',
        '<rect x="420.0" y="0.0" width="60.0" height="7.0" fill="#b5589c"/>',
        '<rect x="0.0" y="9.0" width="480.0" height="7.0" fill="#eceff3"/>',
        "</svg>",
    ])  # fmt: skip


def test_a_strip_of_one_bin_is_as_wide_as_the_chart() -> None:
    chart = strip_chart([("face", np.array([255], np.uint8))], label="a <b>")
    assert '<rect x="0.0" y="0.0" width="480.0" height="7.0" fill="#b5589c"/>' in chart


@pytest.mark.parametrize(("maximum", "ticks"), [
    (100, [0, 20, 40, 60, 80, 100]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (7.5, [0, 2, 4, 6]),
    (5, [0, 1, 2, 3, 4, 5]), (25, [0, 5, 10, 15, 20, 25]), (30, [0, 10, 20, 30]),
    (0.3, [0, 0.1, 0.2, 0.3]), (0, [0]),
])  # fmt: skip
def test_axes_have_round_numbers(maximum: float, ticks: list[float]) -> None:
    assert nice_ticks(maximum) == ticks


@pytest.mark.parametrize(("value", "expected"), [
    (-1, 1), (0, 1), (0.3, 0.3), (1, 1), (1.2, 1.5), (1.6, 2), (2.1, 3), (3.1, 5), (6.02, 7.5),
    (80, 100), (100, 100), (101, 150),
])  # fmt: skip
def test_axes_end_at_round_numbers(value: float, expected: float) -> None:
    assert nice_maximum(value) == pytest.approx(expected)


def test_counts_are_written_short() -> None:
    counts = (0, 9999, 10_000, 12_345, 999_499, 1_000_000, 4_560_000)
    assert [short(count) for count in counts] == [
        "0", "9999", "10k", "12.3k", "999k", "1M", "4.56M"
    ]  # fmt: skip
