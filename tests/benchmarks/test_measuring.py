"""What the benchmarks share: turns, medians, processes of their own, counted instructions."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.shared.instructions import count_process, missing
from benchmarks.shared.measuring import Measured, in_turns, ratio, report, run_alone


def test_the_arms_take_turns_and_the_warm_up_does_not_count():
    order = []
    arms = {name: lambda name=name: order.append(name) or len(order) for name in "ab"}
    taken = in_turns(arms, 2, clock=None)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert taken == {"a": [4, 5], "b": [3, 6]}


def test_a_ratio_is_taken_within_each_round():
    # The third round was ten times slower for both.
    assert ratio([2.0, 2.2, 20.0], [1.0, 1.0, 10.0]) == Measured(2.0, 2.0, 2.2)


def test_a_process_is_measured_alone():
    before = bytearray(300 << 20)  # ours must not count as the child's
    before[::4096] = b"x" * len(before[::4096])
    used = run_alone([sys.executable, "-c", "print(sum(range(10**6)))"])
    assert used.stdout.strip() == str(sum(range(10**6)))
    assert 1 < used.peak_mb < 100
    assert used.cpu_seconds > 0
    with pytest.raises(SystemExit, match=r"(?s)no such thing.* ended with 3"):
        run_alone([sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"])


def test_results_are_one_line_of_json(capsys):
    report({"speed": Measured(2.0, 1.0, 3.0, "so")}, as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"speed": {"value": 2.0, "low": 1.0, "high": 3.0, "note": "so"}}
    report({"speed": Measured(2.0, 1.0, 3.0, "so")}, as_json=False)
    assert capsys.readouterr().out.split() == ["speed", "2", "(1", "to", "3)", "so"]


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_instructions_are_the_same_every_time():
    program = Path("/bin/true")
    assert count_process([program]) == pytest.approx(count_process([program]), rel=1e-3)
    assert count_process([program]) > 10_000
