from __future__ import annotations

import os
import pickle
from functools import partial
from pathlib import Path

import pytest

from posemill.machine.per_process import PerProcess


def test_a_handle_is_opened_once_in_a_process_and_anew_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("text")
    handle = PerProcess(partial(open, tmp_path / "file"))  # files cannot be pickled
    with handle.get() as first:
        assert handle.get() is first
        with pickle.loads(pickle.dumps(handle)).get() as another:
            assert another is not first
            assert another.read() == "text"
        assert handle.get() is first, "the pickled one keeps its own"
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with handle.get() as forked:
            assert forked is not first
