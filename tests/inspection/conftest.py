import numpy as np
import pytest
from made_up_people import make_person
from PIL import ImageDraw

from posemill.inspection.drawing import lettering
from posemill.inspection.drawing.movies import write_movie


@pytest.fixture
def make_clip():
    """A function that returns clips of a made-up person; see `make_person`."""
    return make_person


def write_film(path, levels):
    """Write a movie whose frames are grey, each of its own level; make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_movie(path, (np.full((48, 64, 3), level, np.uint8) for level in levels), kind="mp4")


def facts_of(path, layout="auto", decoder=None):
    """Return what a manifest says of a run over this dataset."""
    return {"source": {"path": path, "layout": layout}, "options": {"decoder": decoder}}


@pytest.fixture
def no_fonts(monkeypatch):
    """A machine without any font."""
    monkeypatch.delenv("POSEMILL_FONT", raising=False)
    monkeypatch.setattr(lettering, "system_fonts", lambda: ())
    lettering._fonts.cache_clear()
    yield
    lettering._fonts.cache_clear()


@pytest.fixture
def said(monkeypatch):
    """Every line of text that is written on pictures."""
    lines = []
    write = ImageDraw.ImageDraw.text

    def note(draw, at_xy, text, **how):
        lines.append(text)
        write(draw, at_xy, text, **how)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", note)
    return lines


@pytest.fixture
def small_font(no_fonts, tmp_path, monkeypatch):
    """A font with ASCII, U+4F60 and U+597D, every letter a box of its own width; the only one."""
    builder_module = pytest.importorskip("fontTools.fontBuilder")
    pens = pytest.importorskip("fontTools.pens.ttGlyphPen")
    letters = {code: f"u{code:04X}" for code in [*range(32, 127), 0x4F60, 0x597D]}

    def box(width):
        pen = pens.TTGlyphPen(None)
        pen.moveTo((50, 0))
        for corner in ((50, 700), (width, 700), (width, 0)):
            pen.lineTo(corner)
        pen.closePath()
        return pen.glyph()

    widths = {name: 300 + code % 97 for code, name in letters.items()}
    widths.update({".notdef": 900, letters[0x4F60]: 1000, letters[0x597D]: 800})
    builder = builder_module.FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(list(widths))
    builder.setupCharacterMap(letters)
    builder.setupGlyf({name: box(width) for name, width in widths.items()})
    builder.setupHorizontalMetrics({name: (width + 100, 50) for name, width in widths.items()})
    builder.setupHorizontalHeader(ascent=900, descent=-200)
    builder.setupOS2()
    builder.setupPost()
    builder.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    path = tmp_path / "boxes.ttf"
    builder.save(path)
    monkeypatch.setenv("POSEMILL_FONT", str(path))
    return path
