"""The page around a report: everything escaped, numbers right, pictures small and inside."""

from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest

from posemill.errors import PosemillError
from posemill.inspection.report.page import page, picture_uri, section, table, text


def test_text_is_escaped_and_holds_no_controls() -> None:
    assert text('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"
    assert text("a\udcff\u202e\n") == "a???"
    assert text(5) == "5"


def test_a_page_forbids_loading() -> None:
    found = page("<t>", ["<p>a</p>", "<p>b</p>"])
    assert found.startswith('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta ')
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in found
    assert "<title>&lt;t&gt;</title><style>:root {" in found
    assert found.endswith("<body><main><p>a</p>\n<p>b</p></main></body></html>\n")


def test_a_section_has_a_heading_and_perhaps_a_remark() -> None:
    assert section("<h>", "<p>a</p>", "<p>b</p>") == (
        "<section><h2>&lt;h&gt;</h2><p>a</p><p>b</p></section>"
    )
    assert section("h", remark="<r>") == (
        '<section><h2>h</h2><p class="quiet">&lt;r&gt;</p></section>'
    )


def test_numbers_of_a_table_stand_right() -> None:
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


def decode(address: str) -> np.ndarray:
    start, data = address.split(",")
    assert start == "data:image/jpeg;base64"
    found = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(found, cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize(("size_wh", "expected"), [
    ((360, 20), (360, 20)), ((361, 722), (360, 720)), ((720, 3), (360, 2)), ((4000, 1), (360, 1)),
])  # fmt: skip
def test_pictures_are_at_most_360_wide(size_wh: tuple[int, int], expected: tuple[int, int]) -> None:
    width, height = size_wh
    picture = np.full((height, width, 3), (200, 100, 30), np.uint8)
    found = decode(picture_uri(picture))
    assert found.shape == (expected[1], expected[0], 3)
    assert np.abs(found.astype(int) - (200, 100, 30)).max() < 5


def test_pictures_are_packed_at_a_quality_of_80() -> None:
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, (16, 32, 3), np.uint8)
    expected = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    assert picture_uri(picture).split(",")[1] == base64.b64encode(expected).decode()
    assert decode(picture_uri(picture, width=8)).shape == (4, 8, 3)


def test_a_picture_that_cannot_be_packed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cv2, "imencode", lambda *_: (False, None))
    with pytest.raises(PosemillError) as caught:
        picture_uri(np.zeros((2, 3, 3), np.uint8))
    assert str(caught.value) == "a picture of (2, 3, 3) cannot be written as JPEG"
