"""What goes between coordinator and workers: nobody changes it, and it survives the way."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from posemill.jobs.extract import messages
from posemill.jobs.extract.keypoints import KeypointSettings
from posemill.records import Clip
from posemill.runs.events import Committed, Lost, Shard, UnitProgress

UNIT = messages.Unit(1, 2, Clip("a", "a.mp4", "video"), 0, 9, 3, b"state", True)
LOST = Lost(3, 1, "a.mp4", "decode", "cut short")
DONE = UnitProgress(1, 2, "train", 9, None, True, 6, (LOST,))
MESSAGES = [
    UNIT,
    messages.Task("t", (UNIT,), 100),
    Committed(Shard("s.parquet", 6, 1000, ()), (DONE,)),
    messages.Fatal("DeviceError", "no GPU"),
    KeypointSettings("run", "auto", ("cpu",), 4, 1 << 30, "fake", {}, "holistic-543", "id"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_comes_out_of_a_pipe_as_it_went_in_and_cannot_be_changed(message: Any) -> None:
    assert pickle.loads(pickle.dumps(message)) == message
    with pytest.raises(FrozenInstanceError):
        setattr(message, fields(message)[0].name, None)
