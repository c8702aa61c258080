"""The page around a report: everything escaped, numbers right, pictures small and inside."""

import base64

import cv2
import numpy as np

from posemill.inspection.report.page import figure, section, table, text


def test_text_sections_and_figures_are_escaped():
    assert text('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"
    assert text("a\udcff\u202e\n") == "a???"
    assert text(5) == "5"
    assert section("<h>", "<p>a</p>", "<p>b</p>") == (
        "<section><h2>&lt;h&gt;</h2><p>a</p><p>b</p></section>"
    )
    assert section("h", remark="<r>") == (
        '<section><h2>h</h2><p class="quiet">&lt;r&gt;</p></section>'
    )
    found = figure(np.zeros((4, 8, 3), np.uint8), "<c>", longest=4)
    assert '<img alt="&lt;c&gt;" src="data:image/jpeg;base64,' in found
    assert "<figcaption>&lt;c&gt;</figcaption>" in found
    data = base64.b64decode(found.split("base64,")[1].partition('"')[0])
    assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR).shape == (2, 4, 3)


def test_numbers_of_a_table_stand_right():
    rows = (row for row in [("<i>", 12345, 1.005, True, 1), ("b", 0, 2, False, "none")])
    assert table(["a<b", "n", "f", "t", "m"], rows) == (
        '<table><tr><th>a&lt;b</th><th class="number">n</th>'
        '<th class="number">f</th><th class="number">t</th><th>m</th></tr>'
        '<tr><td data-column="a&lt;b">&lt;i&gt;</td><td class="number" data-column="n">12,345</td>'
        '<td class="number" data-column="f">1.00</td><td class="number" data-column="t">True</td>'
        '<td data-column="m">1</td></tr>'
        '<tr><td data-column="a&lt;b">b</td><td class="number" data-column="n">0</td>'
        '<td class="number" data-column="f">2</td><td class="number" data-column="t">False</td>'
        '<td data-column="m">none</td></tr></table>'
    )
    assert table(["a"], []) == "<table><tr><th>a</th></tr></table>"
