"""What a page of ours must be: well formed, without anything it loads or runs, fit for a phone."""

import os
import re
import shutil
from html.parser import HTMLParser

import pytest

HOSTILE = '<script>alert("x")</script><img src=http://evil.example/x.png onerror=alert(1)>&\x00\x1b'
VOID = {"meta", "img", "br", "line", "rect"}
LOADING = {"script", "link", "iframe", "object", "embed", "base", "form", "video"}
PICTURES = ("data:image/jpeg;base64,", "data:image/png;base64,")
# What sticks out of the screen, or out of its own box.
STICKING_OUT = """[...document.querySelectorAll('body *')].filter(each =>
  each.getBoundingClientRect().right > innerWidth + 0.5
  || (each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display != 'inline'
      && !each.closest('svg'))
).map(each => each.tagName + ' ' + each.className + ' ' + each.textContent.slice(0, 40))"""
# Sizes of text in pixels of the screen: a chart that is scaled down scales its text too.
TEXT_SIZES = """[...document.querySelectorAll('body *')].filter(each =>
  [...each.childNodes].some(node => node.nodeType == 3 && node.data.trim())
).map(each => parseFloat(getComputedStyle(each).fontSize) * (each.closest('svg')
  ? each.closest('svg').getBoundingClientRect().width / each.closest('svg').viewBox.baseVal.width
  : 1))"""


class Page(HTMLParser):
    """Collects tags, attributes and text, and sees that every tag is closed."""

    def __init__(self, content):
        super().__init__()
        self.open = []
        self.tags = []
        self.words = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words_of_page(content):
    """Return the words of a page with a name that is `HOSTILE`, after a look at all of it."""
    page = Page(content)
    assert content.startswith("<!doctype html>")
    assert page.open == []
    assert LOADING.isdisjoint(tag for tag, _ in page.tags)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in {"src", "href", "srcset", "data", "xlink:href"} & attributes.keys():
            assert tag == "img"
            assert str(attributes[name]).startswith(PICTURES)
    assert not re.search(r"url\(|@import|<script|\x1b", content)
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in content
    words = " ".join(" ".join(page.words).split())
    assert '<script>alert("x")</script>' in words
    return words


def check_on_phone(file):
    """See that all of a page fits the screen of a phone, and that no text of it is small."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = os.environ.get("POSEMILL_CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on this machine; make browser installs it on Debian")
    with playwright.sync_playwright() as starter:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = starter.chromium.launch(executable_path=program, args=flags, timeout=120_000)
        page = browser.new_page(viewport={"width": 420, "height": 900}, is_mobile=True)
        page.goto(file.resolve().as_uri(), timeout=120_000)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("innerWidth") == 420
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.evaluate(STICKING_OUT) == []
        assert min(page.evaluate(TEXT_SIZES)) >= 10.5
        browser.close()
