"""The words all parts of a store share."""

from __future__ import annotations

import pytest

from posemill.stores.names import SCHEMA_VERSION, valid_unicode


@pytest.mark.parametrize(
    ("name", "stored"),
    [("手語 é", "手語 é"), ("caf\udce9", r"caf\xe9"), ("\udcff\udc80", r"\xff\x80"), ("", "")],
)
def test_bytes_of_a_name_that_are_no_text_are_written_out(name: str, stored: str) -> None:
    assert valid_unicode(name) == stored


def test_shards_that_are_on_disks_have_this_version() -> None:
    assert SCHEMA_VERSION == 2
