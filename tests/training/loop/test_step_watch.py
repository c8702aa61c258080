"""Lines of a user's code that wait or print, found while `fit` trains."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posemill
from posemill.training.loop import step_watch
from posemill.training.loop.step_watch import StepWatch

QUIET: dict[str, Any] = {
    "parallel": "single", "precision": "fp32", "workers": 0, "progress": False,
    "tensorboard": False, "figures": False, "epochs": 2, "batch_size": 2,
}  # fmt: skip


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return where a text stands in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def waits_of(run: Path) -> list[tuple[str, int, str]]:
    from posemill.training.loop.timing import read_evidence

    found = read_evidence(run).waits
    assert {wait.file for wait in found} <= {__file__}
    return [(wait.call, wait.line, "each step" if wait.per_step else "") for wait in found]


class Pairs:
    """Numbers; what is read back of an array, or while loading, makes no device wait."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor([float(index)])
        assert np.ones(3).tolist()
        return x, torch.tensor([3 * x.item()])


def squared(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def nosy(output: Tensor, target: Tensor) -> Tensor:
    loss = squared(output, target)
    if loss.item() > 1e9:
        raise AssertionError
    return loss


def talk(moment: Any) -> None:
    print(moment.step)  # noqa: T201


def talk_at_times(moment: Any) -> None:
    if moment.step == 5:
        print(moment.loss)  # noqa: T201


def read_loss(moment: Any) -> None:
    assert moment.loss < 1e9


@pytest.mark.parametrize(
    ("loss", "on_step", "expected"),
    [
        (squared, None, []),
        (squared, talk_at_times, []),
        (nosy, None, [(".item()", nosy, "loss.item()")]),
        (squared, talk, [("print()", talk, "print(")]),
        (squared, read_loss, [(".tolist()", read_loss, "moment.loss")]),
    ],
)
def test_a_call_in_every_step_is_found_with_file_and_line(
    loss: Any, on_step: Any, expected: list[Any], tmp_path: Path
) -> None:
    posemill.fit(
        nn.Linear(1, 1), Pairs(), loss=loss, on_step=on_step, out=str(tmp_path / "a"), **QUIET
    )
    # On a busy machine a single call may take long: that is found, too, but not in each step.
    waits = [wait for wait in waits_of(tmp_path / "a") if wait[2]]
    assert waits == [
        (call, line_of(function, text), "each step") for call, function, text in expected
    ]
    assert sys.getprofile() is None


# As a scalar of a GPU that has not caught up, in a file of a library.
LIBRARY: dict[str, Any] = {}
SOURCE = """
import time
class SlowScalar:
    def item(self):
        time.sleep(0.01)
"""
exec(compile(SOURCE, "/venv/site-packages/gpu.py", "exec"), LIBRARY)


def wait_for_device(moment: Any) -> None:
    if moment.step > 6:
        LIBRARY["SlowScalar"]().item()


def test_what_takes_long_is_found_by_looking_at_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_watch, "_SAMPLE_SECONDS", 0.002)
    posemill.fit(
        nn.Linear(1, 1), Pairs(), loss=squared, on_step=wait_for_device, out=str(tmp_path / "a"),
        **QUIET,
    )  # fmt: skip
    (advice,) = [each for each in posemill.advise(tmp_path / "a") if not each.setting]
    assert advice.gain is not None
    assert advice.gain > 1.05
    assert f"{__file__}:{line_of(wait_for_device, 'item()')} calls .item()" in str(advice)


def test_an_error_in_a_followed_step_leaves_no_profiler(tmp_path: Path) -> None:
    def fail(moment: Any) -> None:
        if moment.step == 5:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        posemill.fit(
            nn.Linear(1, 1), Pairs(), loss=squared, on_step=fail, out=str(tmp_path / "a"), **QUIET
        )
    assert sys.getprofile() is None


def test_a_profiler_of_the_user_stays(tmp_path: Path) -> None:
    def theirs(*_: Any) -> None:
        return None

    sys.setprofile(theirs)
    try:
        posemill.fit(nn.Linear(1, 1), Pairs(), loss=nosy, out=str(tmp_path / "a"), **QUIET)
        assert sys.getprofile() is theirs
    finally:
        sys.setprofile(None)
    assert waits_of(tmp_path / "a") == []


def test_looking_takes_less_than_a_hundredth_of_a_core() -> None:
    watch = StepWatch(is_on=True)
    watch.begin_step()
    started = time.thread_time()
    for _ in range(200):
        step_watch._user_line(sys._current_frames()[watch._thread])
    each = (time.thread_time() - started) / 200
    assert each / step_watch._SAMPLE_SECONDS < 0.01


def test_a_training_of_our_own_code_is_not_watched() -> None:
    watch = StepWatch(is_on=False)
    watch.start()
    for _ in range(6):
        watch.begin_step()
        watch.end_step()
    assert watch.waits() == []
