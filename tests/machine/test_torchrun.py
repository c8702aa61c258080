from __future__ import annotations

import subprocess
import sys

import pytest

from posemill.machine.processes import is_first_process, under_torchrun

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def _no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("missing", NAMES)
def test_all_four_variables_make_torchrun(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        if name != missing:
            monkeypatch.setenv(name, "1")
    assert not under_torchrun()
    assert is_first_process(), "a rank without the rest is somebody else's"
    monkeypatch.setenv(missing, "1")
    assert under_torchrun()
    assert not is_first_process()
    monkeypatch.setenv("RANK", "0")
    assert is_first_process()


def test_a_process_leaves_at_once_with_all_it_printed() -> None:
    code = (
        "import atexit, sys\n"
        "from posemill.machine.processes import leave_at_once\n"
        "atexit.register(print, 'clean-up')\n"
        "sys.stdout.write('out'); sys.stderr.write('err')\n"
        "leave_at_once()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("out", "err")
