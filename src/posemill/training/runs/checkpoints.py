"""Checkpoints: weights and state without pickle, committed by one rename, written in a thread.

checkpoints/step-00000120/model.safetensors   weights and buffers
                          state.safetensors   optimizer, moving average, random states
                          state.json          counters, scores, scaler, what the model is
checkpoints/last.json, best.json              which folder; written last, so readers trust them
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from posemill.errors import TrainingError
from posemill.files import atomic_path, open_plain, parse_json, sync_folder
from posemill.machine.disk import disk_message

_MODEL, _TENSORS, _STATE = "model.safetensors", "state.safetensors", "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a training, on the CPU.

    Args:
        weights: State dict of the model.
        tensors: Optimizer, moving average and random states, by dotted names.
        state: All else, as JSON: `step`, `identity` and what the trainer adds.
    """

    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)


class CheckpointFolder:
    """The checkpoints of one run: `last`, to continue, and `best`, to use."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def has(self, name: str) -> bool:
        """Return True where `last` or `best` exists."""
        return (self.path / f"{name}.json").is_file()

    def save(self, checkpoint: Checkpoint, *names: str) -> Path:
        """Write a checkpoint, let `names` point to it, and remove what nothing points to."""
        folder = self._folder_of(f"step-{checkpoint.state['step']:08d}", "the training")
        folder.mkdir(parents=True, exist_ok=True)
        for file, tensors in ((_MODEL, checkpoint.weights), (_TENSORS, checkpoint.tensors)):
            with atomic_path(folder / file) as temporary:
                _save_tensors(dict(tensors), temporary)
        _write_json(folder / _STATE, checkpoint.state)
        sync_folder(self.path)
        for name in names:
            pointer = {"folder": folder.name, "step": checkpoint.state["step"]}
            _write_json(self.path / f"{name}.json", pointer)
        self._remove_unused()
        return folder

    def load(self, name: str) -> Checkpoint:
        """Return a whole checkpoint."""
        folder = self.find(name)
        state = _read_json(folder / _STATE)
        return Checkpoint(_read_tensors(folder / _MODEL), _read_tensors(folder / _TENSORS), state)

    def load_weights(self, name: str) -> Checkpoint:
        """Return the weights to use, the moving average where there is one, and the state."""
        whole = self.load(name)
        averaged = {
            key.removeprefix("average."): tensor
            for key, tensor in whole.tensors.items()
            if key.startswith("average.")
        }
        return Checkpoint({**whole.weights, **averaged}, {}, whole.state)

    def find(self, name: str) -> Path:
        """Return the folder `last` or `best` points to."""
        if not self.has(name):
            raise TrainingError(
                f"no {name} checkpoint in {self.path}: the training was stopped before the first "
                "one; start it again"
            )
        pointer = self.path / f"{name}.json"
        return self._folder_of(_read_json(pointer).get("folder"), str(pointer))

    def _folder_of(self, name: Any, where: str) -> Path:
        """Return the folder of a checkpoint; runs come from strangers, and names may lead out."""
        is_plain = isinstance(name, str) and re.fullmatch(r"step-\d+", name) is not None
        if not is_plain or (self.path / name).is_symlink():
            raise TrainingError(
                f"{where} names {name!r}, which is not a checkpoint of {self.path}; nothing "
                "outside of a training is read or changed: put the file back from a copy, or "
                "train again"
            )
        folder: Path = self.path / name
        return folder

    def describe(self) -> dict[str, str]:
        """Return what of the training is left if it ends now, for `disk_message`."""
        try:
            step = _read_json(self.path / "last.json").get("step")
        except TrainingError:
            saved = "no checkpoint was written yet"
        else:
            saved = f"the checkpoint of step {step} is safe"
        return {"saved": saved, "again": "run the same command with --resume"}

    def _remove_unused(self) -> None:
        used = {self.find(name).name for name in ("last", "best") if self.has(name)}
        for folder in self.path.glob("step-*"):
            if folder.name not in used:
                shutil.rmtree(folder, ignore_errors=True)


class CheckpointWriter:
    """Writes checkpoints in a thread, one at a time; the next call waits for the one before."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="posemill-checkpoint")
        self._pending: Future[Path] | None = None

    def submit(self, checkpoint: Checkpoint, *names: str) -> None:
        """Begin to write; an error of the write before is raised here."""
        self.wait()
        self._pending = self._pool.submit(self.folder.save, checkpoint, *names)

    def wait(self) -> None:
        """Return when nothing is being written; raise what went wrong."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            pending.result()
        except OSError as error:
            raise TrainingError(
                disk_message(error, str(self.folder.path), **self.folder.describe())
            ) from error

    def close(self) -> None:
        """Finish what is being written."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()


def copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU that later steps do not change."""
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }


def check_identity(saved: Any, identity: Mapping[str, Any], where: str) -> None:
    """Raise `TrainingError` where what is known of a saved model is not what it has to be now."""
    if not isinstance(saved, dict):
        return
    now = json.loads(json.dumps(identity))
    different = [key for key in {*saved, *now} if saved.get(key) != now.get(key)]
    if different:
        listed = ", ".join(
            f"{key} {saved.get(key)!r} instead of {now.get(key)!r}" for key in sorted(different)
        )
        raise TrainingError(
            f"the checkpoint {where} is of another model: it has {listed}; use the settings "
            "it was trained with, or another --out"
        )


def load_into(
    model: nn.Module,
    checkpoint: Checkpoint,
    *,
    identity: Mapping[str, Any] | None = None,
    where: str = "",
) -> None:
    """Copy the weights into a model; a checkpoint of another model is a `TrainingError`."""
    if identity is not None:
        check_identity(checkpoint.state.get("identity"), identity, where)
    own = model.state_dict()
    wrong = sorted(
        name
        for name in {*own, *checkpoint.weights}
        if name not in own
        or name not in checkpoint.weights
        or own[name].shape != checkpoint.weights[name].shape
    )
    if wrong:
        raise TrainingError(
            f"the checkpoint {where} is of another model: {len(wrong)} tensors are missing, new or "
            f"of another shape, the first {wrong[0]!r}; where an earlier posemill wrote it, whose "
            "model of that name was built otherwise, use that version or train again"
        )
    model.load_state_dict(dict(checkpoint.weights))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value), encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with os.fdopen(open_plain(path), "rb") as handle:
            value = parse_json(handle.read())
    except (OSError, ValueError) as error:
        raise TrainingError(f"cannot read the checkpoint file {path}: {error}") from error
    if not isinstance(value, dict):
        raise TrainingError(f"cannot read the checkpoint file {path}: expected an object")
    return value


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        safetensors.torch.save_file(tensors, path)
    except safetensors.SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return dict(safetensors.torch.load_file(path))
    except (OSError, safetensors.SafetensorError) as error:
        raise TrainingError(f"cannot read the checkpoint file {path}: {error}") from error
