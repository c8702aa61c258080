"""Words and numbers all parts of a store share; nothing heavy is imported here."""

from __future__ import annotations

SCHEMA_VERSION = 2  # of a shard, see `posemill.stores.schema` and `posemill.stores.columns`


def valid_unicode(text: str) -> str:
    r"""Return text that is valid Unicode: bytes of a name that are not UTF-8 become `\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
