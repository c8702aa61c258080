"""The errors, and the tree of them drawn on top of their module."""

from __future__ import annotations

import re

from posemill import errors


def error_classes() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


def test_the_drawn_tree_names_every_error() -> None:
    drawn = set(re.findall(r"\b(\w+Error)\b", (errors.__doc__ or "").split("\n\n")[1]))
    assert drawn == set(error_classes())


def test_every_error_is_a_posemill_error_with_an_exit_code_and_a_meaning() -> None:
    for value in error_classes().values():
        assert issubclass(value, errors.PosemillError)
        assert value.exit_code in (1, 2)
        assert value.__doc__
