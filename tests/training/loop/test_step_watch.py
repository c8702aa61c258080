"""Lines of a user's code that wait or print, found while `fit` trains."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_sets import QUIET
from torch import Tensor, nn

import posemill
from posemill.training.loop import timing
from posemill.training.loop.timing import read_evidence

# As of a GPU that has not caught up, in a file of a library.
LIBRARY: dict[str, Any] = {}
SOURCE = """
import time
class SlowScalar:
    def item(self):
        time.sleep(0.01)
    __str__ = lambda self: self.item() or ""
"""
exec(compile(SOURCE, "/venv/site-packages/gpu.py", "exec"), LIBRARY)
SLOW = LIBRARY["SlowScalar"]()


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return where a text stands in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


class Pairs:
    """Numbers; what is read back while loading makes no device wait."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        SLOW.item()
        x = torch.tensor([float(index)])
        return x, 3 * x


def read_back(moment: Any) -> None:
    SLOW.item()


def talk(moment: Any) -> None:
    print(SLOW)  # noqa: T201


def compute(moment: Any) -> None:
    time.sleep(0.01)


@pytest.mark.parametrize(
    ("on_step", "expected"),
    [(read_back, ".item()"), (talk, "print()"), (compute, "")],
)
def test_a_line_that_takes_long_is_found_with_file_and_call(
    on_step, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(timing, "_WATCH_SECONDS", 0.002)
    loss = nn.MSELoss()
    posemill.fit(nn.Linear(1, 1), Pairs(), loss=loss, on_step=on_step, out=tmp_path / "a",
                 epochs=2, batch_size=2, **QUIET)  # fmt: skip
    waits = read_evidence(tmp_path / "a").waits
    if not expected:
        assert waits == ()
        return
    (wait,) = waits
    assert (wait.file, wait.call) == (__file__, expected)
    assert wait.line == line_of(on_step, "SLOW")
    (advice,) = [each for each in posemill.advise(tmp_path / "a") if not each.setting]
    assert advice.gain > 1.05
