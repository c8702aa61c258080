from __future__ import annotations

from posemill.training.config.run_settings import PRESETS
from tools.preset_table import FILE, preset_table, with_table


def test_the_page_shows_the_presets_of_the_code() -> None:
    page = FILE.read_text(encoding="utf-8")
    assert with_table(page) == page, "python -m tools.preset_table"
    assert preset_table().splitlines()[0].count("|") == len(PRESETS) + 2
