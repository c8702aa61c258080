"""The task functions, where spawned workers find them."""

from pathlib import Path

import pytest


@pytest.fixture
def functions(monkeypatch):
    """The module of task functions, importable by name in spawned workers too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import task_functions

    return task_functions
