"""A path that leads nowhere, given to every function of the front door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posemill
from posemill.errors import PosemillError, RunError, SourceError


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda to: posemill.extract("nowhere", to, engine="fake"), SourceError, "nowhere"),
        (lambda to: posemill.prepare("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.export("nowhere", "pkl", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.import_run("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.merge(["nowhere"], to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.view("nowhere"), PosemillError, "nowhere: no such file or folder"),
        (lambda to: posemill.visualize("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.report("nowhere", to), PosemillError, "nowhere: no such file"),
        (lambda to: posemill.status("nowhere"), RunError, "nowhere"),
        (lambda to: posemill.open_run("nowhere"), RunError, "nowhere"),
    ],
)
def test_a_wrong_path_is_an_error_of_ours_that_names_it(
    call: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "out")
    assert not (tmp_path / "out").exists()
