import io
import pickle
import zipfile
from functools import partial

import pytest
import torch
from small_sets import Harm, assert_same_state
from torch import nn

from posemill.errors import TrainingError
from posemill.training.record import checkpoints
from posemill.training.record.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    CheckpointWriter,
    copy_state,
    load_into,
)

FIVE = torch.full((2,), 5.0)


def checkpoint(step, value=1.0):
    state = {"step": step, "identity": {"model": "mlp", "width": 3}}
    return Checkpoint({"a": torch.full((2,), value)}, {**state, "average": {"a": FIVE}})


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    folder.save(checkpoint(7, 0.5), "last", "best")
    loaded = folder.load("last")
    assert torch.equal(loaded.weights["a"], torch.full((2,), 0.5))
    assert_same_state(loaded.state, checkpoint(7).state)
    assert torch.equal(folder.load_weights("best").weights["a"], torch.full((2,), 5.0))


def test_only_what_last_and_best_point_to_is_kept(tmp_path):
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1), "last", "best")
    folder.save(checkpoint(2), "last")
    folder.save(checkpoint(3), "last")
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000001",
        "step-00000003",
    ]
    assert folder.find("best").name == "step-00000001"


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path):
    folder = CheckpointFolder(tmp_path)
    folder.save(checkpoint(1), "last")
    torn = tmp_path / "step-00000002"
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"half")
    assert folder.load("last").state["step"] == 1
    with pytest.raises(TrainingError, match=r"no best checkpoint in .*: the training was stopped"):
        folder.find("best")
    (folder.find("last") / "model.safetensors").write_bytes(b"\x80\x04rubbish")
    with pytest.raises(TrainingError, match=r"cannot read the checkpoint file .*model\.safetens"):
        folder.load("last")


def saved(state, **options):
    buffer = io.BytesIO()
    torch.save(state, buffer, **options)
    return buffer.getvalue()


def repeated(levels):
    """Return a list that is ten times as long at each level, of a few bytes each."""
    value = ["again"]
    for _ in range(levels):
        value = [value] * 10
    return value


def compressed(content):
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for entry in plain.infolist():
            small.writestr(entry.filename, plain.read(entry))
    return packed.getvalue()


ENDLESS = []
ENDLESS.append(ENDLESS)
# The bytes of a state that would do something if it were believed, made of what does harm.
HOSTILE = {
    "raw pickle": (pickle.dumps, "it is not a file of torch.save"),
    "old format": (partial(saved, _use_new_zipfile_serialization=False),
                   "it is not a file of torch.save"),
    "code": (saved, "Weights only load failed"),
    "names": (lambda _: saved({"step": repeated(30)}), "it names values over and over"),
    "itself": (lambda _: saved({"step": ENDLESS}), "it names values over and over"),
    "shape": (lambda _: saved({"step": torch.ones(1).expand(10**12)}),
              r"a tensor of \(1000000000000,\) is not dense"),
    "list": (lambda _: saved([1]), "expected a dict"),
    "compressed": (lambda _: compressed(saved({"step": torch.zeros(10**6)})),
                   "it holds more than it is long"),
    "cut": (lambda _: saved({"step": 1})[:200], "File is not a zip file"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_state_runs_nothing_and_takes_no_memory(make, message, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "_MOST_VALUES", 10_000)
    folder = CheckpointFolder(tmp_path / "checkpoints")
    path = folder.save(checkpoint(1), "last")
    (path / "state.pt").write_bytes(make({"step": Harm(tmp_path / "harm")}))
    with pytest.raises(TrainingError, match=rf"cannot read the checkpoint file .*: {message}"):
        folder.load("last")
    assert not (tmp_path / "harm").exists()


def test_the_writer_raises_what_went_wrong_in_its_thread(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    writer = CheckpointWriter(CheckpointFolder(blocked / "checkpoints"))
    writer.submit(checkpoint(1), "last")
    with pytest.raises(TrainingError, match=r"cannot write to .*no checkpoint was written yet"):
        writer.wait()
    writer.close()


def test_what_is_written_is_the_moment_of_the_call(tmp_path):
    writer = CheckpointWriter(CheckpointFolder(tmp_path))
    weights = {"a": torch.zeros(2)}
    writer.submit(Checkpoint(copy_state(weights), {"step": 1}), "last")
    weights["a"] += 1
    writer.close()
    assert torch.equal(writer.folder.load("last").weights["a"], torch.zeros(2))


def test_a_checkpoint_of_another_model_says_how_it_differs():
    saved = Checkpoint({"weight": torch.zeros(2, 2), "bias": torch.zeros(2)},
                       {"step": 1, "identity": {"model": "mlp", "num_classes": 4}})  # fmt: skip
    model = nn.Linear(2, 2)
    with pytest.raises(TrainingError, match="another model: it has num_classes 4 instead of 5"):
        load_into(model, saved, identity={"model": "mlp", "num_classes": 5}, where="x")
    load_into(model, saved, identity={"model": "mlp", "num_classes": 4}, where="x")
    with pytest.raises(
        TrainingError, match=r"another model: 2 tensors .* 'bias'; use the model it is of"
    ):
        load_into(nn.Linear(2, 3), saved, where="x")
