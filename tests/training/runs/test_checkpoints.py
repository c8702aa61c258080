from __future__ import annotations

import json
import random
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from posemill.errors import TrainingError
from posemill.training.loop.random_states import (
    read_random_states,
    seed_everything,
    set_random_states,
)
from posemill.training.runs.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    CheckpointWriter,
    copy_tensors,
    load_into,
)


def checkpoint(step: int, value: float = 1.0) -> Checkpoint:
    state = {"step": step, "identity": {"model": "mlp", "width": 3}}
    return Checkpoint({"a": torch.full((2,), value)}, {"average.a": torch.ones(2) * 5}, state)


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "checkpoints")
    folder.save(checkpoint(7, 0.5), "last", "best")
    loaded = folder.load("last")
    assert torch.equal(loaded.weights["a"], torch.full((2,), 0.5))
    assert loaded.state == checkpoint(7).state
    assert torch.equal(folder.load_weights("best").weights["a"], torch.full((2,), 5.0))


def test_only_what_last_and_best_point_to_is_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1), "last", "best")
    folder.save(checkpoint(2), "last")
    folder.save(checkpoint(3), "last")
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000001",
        "step-00000003",
    ]
    assert folder.find("best").name == "step-00000001"


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1), "last")
    torn = tmp_path / "step-00000002"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half")
    assert folder.load("last").state["step"] == 1
    with pytest.raises(TrainingError, match=r"no best checkpoint in .*: the training was stopped"):
        folder.find("best")


def test_the_files_hold_no_pickle(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path).save(checkpoint(1), "last")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["model.safetensors", "state.json", "state.safetensors"]
    for path in folder.glob("*.safetensors"):
        size = int.from_bytes(path.read_bytes()[:8], "little")
        json.loads(path.read_bytes()[8 : 8 + size])


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    path = folder.save(checkpoint(1), "last")
    (path / "model.safetensors").write_bytes(b"\x80\x04rubbish")
    with pytest.raises(
        TrainingError, match=r"cannot read the checkpoint file .*model\.safetensors"
    ):
        folder.load("last")
    (path / "state.json").write_text("[]")
    with pytest.raises(TrainingError, match=r"state\.json: expected an object"):
        folder.load("last")
    (path / "state.json").write_text("{")
    with pytest.raises(TrainingError, match=r"cannot read the checkpoint file .*state\.json"):
        folder.load("last")


def test_the_writer_raises_what_went_wrong_in_its_thread(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    writer = CheckpointWriter(CheckpointFolder(blocked / "checkpoints"))
    writer.submit(checkpoint(1), "last")
    with pytest.raises(TrainingError, match=r"cannot write to .*no checkpoint was written yet"):
        writer.wait()
    writer.close()


def test_what_is_written_is_the_moment_of_the_call(tmp_path: Path) -> None:
    writer = CheckpointWriter(CheckpointFolder(tmp_path))
    weights = {"a": torch.zeros(2)}
    writer.submit(Checkpoint(copy_tensors(weights), {}, {"step": 1}), "last")
    weights["a"] += 1
    writer.close()
    assert torch.equal(writer.folder.load("last").weights["a"], torch.zeros(2))


def test_a_checkpoint_of_another_model_says_how_it_differs() -> None:
    saved = Checkpoint({"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}, {},
                       {"step": 1, "identity": {"model": "mlp", "num_classes": 4}})  # fmt: skip
    model = nn.Linear(2, 2)
    with pytest.raises(TrainingError, match="another model: it has num_classes 4 instead of 5"):
        load_into(model, saved, identity={"model": "mlp", "num_classes": 5}, where="x")
    load_into(model, saved, identity={"model": "mlp", "num_classes": 4})
    with pytest.raises(
        TrainingError, match=r"another model: 2 tensors .* 'bias'; where an earlier"
    ):
        load_into(nn.Linear(2, 3), saved)


def test_random_generators_go_on_where_they_were() -> None:
    def draw() -> tuple[float, float, float]:
        numpy_draw = float(np.random.random())  # noqa: NPY002
        return random.random(), numpy_draw, float(torch.rand(()))

    seed_everything(3)
    draw()
    tensors, values = read_random_states()
    kept = json.loads(json.dumps(values))
    expected = draw()
    draw()
    set_random_states(tensors, kept)
    assert draw() == expected
    seed_everything(3, rank=1)
    assert draw() != expected


def test_a_moment_stays_as_it_is() -> None:
    moment = Checkpoint({})
    assert (moment.tensors, moment.state) == ({}, {})
    with pytest.raises(FrozenInstanceError):
        moment.state = {"step": 2}  # type: ignore[misc]


def test_pointers_and_folders_are_named_by_the_step(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    assert folder.save(checkpoint(120), "last") == tmp_path / "step-00000120"
    assert json.loads((tmp_path / "last.json").read_text()) == {
        "folder": "step-00000120",
        "step": 120,
    }
    assert (folder.has("last"), folder.has("best")) == (True, False)
    assert folder.describe() == {
        "saved": "the checkpoint of step 120 is safe",
        "again": "run the same command with --resume",
    }
