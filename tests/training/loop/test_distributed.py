from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posemill
from posemill.errors import TrainingError
from posemill.training.loop.distributed import check_world

Settings = Callable[..., dict[str, Any]]
SOURCES = str(Path(posemill.__file__).parent.parent)
NO_DROPOUT = {"width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}


def test_a_world_smaller_than_asked_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: tensor)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 1)
    with pytest.raises(TrainingError, match="asked for 2 processes, but 1 answered"):
        check_world(2, "cpu")
