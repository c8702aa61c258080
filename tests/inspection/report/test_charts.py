"""Charts mark by mark: where every box, line and word stands."""

from __future__ import annotations

import numpy as np
import pytest

from posemill.inspection.report.page import badge, bar_chart, histogram, short, strip_chart
from posemill.skeletons.palette import grade, part_colour, part_label

FACE = part_colour("face")


def opening(width: int, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="a &lt;b&gt;" font-size="12" fill="#1d232b">'
    )


def test_bars_stand_below_their_headings() -> None:
    bars = [("pose", 50.0, "half"), ("left_hand", 200.0, "<b>&amp;</b>")]
    chart = bar_chart(
        [("<one>", bars), ("two", [("face", -1.0, "none")])], maximum=100, label="a <b>"
    )

    def bar(name: str, width: str, words: str) -> str:
        return (
            f'<div class="bar"><span>{part_label(name)}</span><div><i style="width:{width}%;'
            f'background:{part_colour(name)}"></i></div><span>{words}</span></div>'
        )

    assert chart == "".join([
        '<div class="bars" role="group" aria-label="a &lt;b&gt;">',
        "<h3>&lt;one&gt;</h3>", bar("pose", "50.0", "half"),
        bar("left_hand", "100.0", "<b>&amp;</b>"),
        "<h3>two</h3>", bar("face", "0.0", "none"),
        "</div>",
    ])  # fmt: skip


@pytest.mark.parametrize(("share", "word"), [
    (0, "bad"), (0.31, "bad"), (0.5, "weak"), (0.79, "weak"), (0.8, "fair"), (0.949, "fair"),
    (0.95, "good"), (0.97, "good"), (1, "good"), (-0.1, "bad"),
])  # fmt: skip
def test_badges_go_from_bad_to_good_in_colour_and_word(share: float, word: str) -> None:
    colour = grade(share).colour
    assert badge(share, "<x>") == (
        f'<span class="badge" style="background:{colour}">&lt;x&gt; {word}</span>'
    )


def test_counts_stand_on_their_bars() -> None:
    chart = histogram(["0-10", "&"], [0, 12345], colour="#123456", x_label="share", label="a <b>")
    assert chart == "".join([
        opening(88, 206),
        '<rect x="10.0" y="150.0" width="32.0" height="0.0" fill="#123456"/>',
        '<text x="26.0" y="164.0" font-size="11" text-anchor="middle">0-10</text>',
        '<rect x="46.0" y="36.0" width="32.0" height="114.0" fill="#123456"/>',
        '<text x="62.0" y="32.0" text-anchor="middle">12.3k</text>',
        '<text x="62.0" y="176.0" font-size="11" text-anchor="middle">&amp;</text>',
        '<text x="8.0" y="12.0">clips</text>',
        '<line x1="8" y1="150" x2="80" y2="150" stroke="#1d232b"/>',
        '<text x="44.0" y="196.0" text-anchor="middle">share</text>',
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
        f'<rect x="120.0" y="0.0" width="180.0" height="7.0" fill="{FACE}"/>',
        f'<rect x="300.0" y="0.0" width="60.0" height="7.0" fill="{FACE}" fill-opacity="0.32"/>',
        f'<rect x="420.0" y="0.0" width="60.0" height="7.0" fill="{FACE}"/>',
        '<rect x="0.0" y="9.0" width="480.0" height="7.0" fill="#eceff3"/>',
        "</svg>",
    ])  # fmt: skip


def test_a_strip_of_one_bin_is_as_wide_as_the_chart() -> None:
    chart = strip_chart([("face", np.array([255], np.uint8))], label="a <b>")
    assert f'<rect x="0.0" y="0.0" width="480.0" height="7.0" fill="{FACE}"/>' in chart


def test_counts_are_written_short() -> None:
    counts = (0, 9999, 10_000, 12_345, 999_499, 1_000_000, 4_560_000)
    assert [short(count) for count in counts] == [
        "0", "9999", "10k", "12.3k", "999k", "1M", "4.56M"
    ]  # fmt: skip
