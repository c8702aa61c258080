"""Clips of every skeleton, with holes, for the tests of formats."""

from __future__ import annotations

from posemill.formats.shared.contract import Format
from posemill.testing.formats import assert_same, make_clip, make_clips

__all__ = ["assert_declares", "assert_same", "make_clip", "make_clips"]


def assert_declares(form: Format, **declared: object) -> None:
    """Fail unless a format says this of itself, and no (or nothing) where nothing is given."""
    usual = {"has_pixels": False, "has_mask": False, "holds_people": False, "mirrors": False,
             "losses": ()}  # fmt: skip
    expected = usual | declared
    assert {name: getattr(form, name, False) for name in expected} == expected
