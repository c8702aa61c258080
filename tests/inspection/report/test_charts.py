import base64
import re

import cv2
import numpy as np
import pytest

from posemill.inspection.report.page import badge, bar_chart, line_chart, strip_chart
from posemill.skeletons.palette import EMPTY, grade, part_colour, rgb_of


def test_bars_stand_below_their_headings():
    bars = [("a&b", "#111111", 0.5, "half"), ("left hand", "#222222", 2.0, "<b>&amp;</b>")]
    groups = [("<one>", bars), ("two", [("face", "#333333", -1.0, "none")])]

    def bar(name, style, words):
        return (
            f'<div class="bar"><span>{name}</span><div><i style="{style}"></i></div>'
            f"<span>{words}</span></div>"
        )

    assert bar_chart(groups, label="a <b>") == "".join([
        '<div class="bars" role="group" aria-label="a &lt;b&gt;">',
        "<h3>&lt;one&gt;</h3>", bar("a&amp;b", "width:50.0%;background:#111111", "half"),
        bar("left hand", "width:100.0%;background:#222222", "<b>&amp;</b>"),
        "<h3>two</h3>", bar("face", "width:0.0%;background:#333333", "none"),
        "</div>",
    ])  # fmt: skip


@pytest.mark.parametrize(("share", "word"), [
    (0, "bad"), (0.31, "bad"), (0.5, "weak"), (0.79, "weak"), (0.8, "fair"), (0.949, "fair"),
    (0.95, "good"), (0.97, "good"), (1, "good"), (-0.1, "bad"),
])  # fmt: skip
def test_badges_go_from_bad_to_good_in_colour_and_word(share, word):
    colour = grade(share).colour
    assert badge(share, "<x>") == (
        f'<span class="badge" style="background:{colour}">&lt;x&gt; {word}</span>'
    )


def strip_of(content):
    data = re.fullmatch(
        r'<img class="strip" alt="a &lt;b&gt;" src="data:image/png;base64,(.*)">', content
    )
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(data[1]), np.uint8), cv2.IMREAD_COLOR)
    return picture[..., ::-1]


def test_strips_show_gaps_where_they_are():
    strips = [("face", np.array([0, 255, 51, 255], np.uint8)), ("pose", np.zeros(4, np.uint8))]
    picture = strip_of(strip_chart(strips, label="a <b>"))
    assert picture.shape == (18, 480, 3)
    face, empty = np.array(rgb_of(part_colour("face"))), np.array(rgb_of(EMPTY))
    pale = np.rint(empty + 0.32 * (face - empty))
    np.testing.assert_array_equal(picture[:7, ::120], np.stack([[empty, face, pale, face]] * 7))
    assert (picture[:7, 119] == empty).all()
    assert (picture[9:16] == empty).all()
    assert (picture[[7, 8, 16, 17]] == 255).all()
    nothing = strip_of(strip_chart([("face", np.zeros(0, np.uint8))], label="a <b>"))
    assert (nothing[:7] == empty).all()


def test_a_curve_is_broken_where_nothing_is_known():
    values = np.array([0, 10, np.nan, 5, 0], np.float32)
    chart = line_chart([("#111111", values), ("#222222", values[::-1])], label="a <b>")
    assert re.findall(r'points="(.*?)" fill="none" stroke="(#.*?)"', chart) == [
        ("40.0,192.0 124.0,8.0", "#111111"), ("292.0,100.0 376.0,192.0", "#111111"),
        ("40.0,192.0 124.0,100.0", "#222222"), ("292.0,8.0 376.0,192.0", "#222222"),
    ]  # fmt: skip
    assert [float(y) for y in re.findall(r'y1="(.*?)"', chart)] == [192, 8]
    assert re.findall(r">(\d+)</text>", chart) == ["0", "10"]
    assert chart.count("stroke-opacity") == 2
    assert line_chart([("#111111", np.full(3, np.nan))], label="").count("<polyline") == 0
