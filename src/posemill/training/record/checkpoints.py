"""Checkpoints: committed by one rename, written in a thread, read without running any code.

checkpoints/step-00000120/model.safetensors   weights and buffers
                          state.pt            optimizer, moving average, random states, counters
checkpoints/last.json, best.json              which folder; written last, so readers trust them
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from posemill.errors import RunError, TrainingError
from posemill.files import atomic_path, open_plain, sync_folder
from posemill.machine.disk import disk_message
from posemill.messages import Message, join
from posemill.training.record.live import read_object, write_object

_MODEL, _STATE = "model.safetensors", "state.pt"
_PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device)
_MOST_VALUES = 5_000_000  # in a state; a file of a few bytes can name one value over and over


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a training, on the CPU: the state dict of the model, and all else.

    The `state` has tensors and plain values: `step`, `identity`, `average` (the moving average of
    the weights by name, empty without one) and what the trainer adds.
    """

    weights: Mapping[str, Tensor]
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
        folder = self._folder_of(f"step-{checkpoint.state['step']:08d}", Message("the training"))
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / _MODEL) as temporary:
            _save_tensors(dict(checkpoint.weights), temporary)
        with atomic_path(folder / _STATE) as temporary, temporary.open("wb") as file:
            torch.save(dict(checkpoint.state), file)
        sync_folder(self.path)
        for name in names:
            pointer = {"folder": folder.name, "step": checkpoint.state["step"]}
            write_object(self.path / f"{name}.json", pointer)
        used = {self.find(name).name for name in ("last", "best") if self.has(name)}
        for other in self.path.glob("step-*"):
            if other.name not in used:
                shutil.rmtree(other, ignore_errors=True)
        return folder

    def load(self, name: str) -> Checkpoint:
        """Return a whole checkpoint; its files may be a stranger's: none runs code or grows."""
        folder = self.find(name)
        path = folder / _MODEL
        try:
            weights = safetensors.torch.load_file(path)
            path = folder / _STATE
            with os.fdopen(open_plain(path), "rb") as file:
                _refuse_compressed(file)
                state = torch.load(file, map_location="cpu", weights_only=True)
            _check_plain(state)
        except Exception as error:  # a broken pickle can raise anything
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise TrainingError(
                "cannot read the checkpoint file {path}: {error}", path=path, error=reason
            ) from error
        return Checkpoint(weights, state)

    def load_weights(self, name: str) -> Checkpoint:
        """Return the weights to use, the moving average where there is one, and the state."""
        whole = self.load(name)
        return Checkpoint({**whole.weights, **whole.state.get("average", {})}, whole.state)

    def find(self, name: str) -> Path:
        """Return the folder `last` or `best` points to."""
        if not self.has(name):
            raise TrainingError(
                "no {name} checkpoint in {folder}: the training was stopped before the first one; "
                "start it again",
                name=name,
                folder=self.path,
            )
        pointer = self.path / f"{name}.json"
        return self._folder_of(read_object(pointer).get("folder"), str(pointer))

    def _folder_of(self, name: Any, where: str) -> Path:
        """Return the folder of a checkpoint; runs come from strangers, and names may lead out."""
        is_plain = isinstance(name, str) and re.fullmatch(r"step-\d+", name) is not None
        if not is_plain or (self.path / name).is_symlink():
            raise TrainingError(
                "{where} names {name!r}, which is not a checkpoint of {folder}; nothing outside "
                "of a training is read or changed: put the file back from a copy, or train again",
                where=where,
                name=name,
                folder=self.path,
            )
        return Path(self.path, name)

    def describe(self) -> dict[str, str]:
        """Return what of the training is left if it ends now, for `disk_message`."""
        step = None
        with suppress(RunError):
            step = read_object(self.path / "last.json").get("step")
        template = "the checkpoint of step {step} is safe"
        if step is None:
            template = "no checkpoint was written yet"
        again = Message("run the same command with {--resume:True}")
        return {"saved": Message(template, step=step), "again": again}


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
        try:
            if pending is not None:
                pending.result()
        except OSError as error:
            reason = disk_message(error, str(self.folder.path), **self.folder.describe())
            raise TrainingError(reason) from error

    def close(self) -> None:
        """Finish what is being written."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()


def copy_state(value: Any) -> Any:
    """Return a state with copies of its tensors; TypeError for what would not be read back."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, Mapping):
        return {key: copy_state(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [copy_state(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, np.generic):
        return value.item()
    if value is not None and type(value) not in _PLAIN:
        raise TypeError(f"it has a value of type {type(value).__name__}")
    return value


def check_identity(saved: Any, identity: Mapping[str, Any], where: str) -> None:
    """Raise `TrainingError` where what is known of a saved model is not what it has to be now."""
    if not isinstance(saved, dict):
        return
    now = json.loads(json.dumps(identity))
    template = "{name} {old!r} instead of {new!r}"
    different = [
        Message(template, name=name, old=saved.get(name), new=now.get(name))
        for name in sorted({*saved, *now})
        if saved.get(name) != now.get(name)
    ]
    if different:
        raise TrainingError(
            "the checkpoint {where} is of another model: it has {listed}; use the settings it was "
            "trained with, or another {--out}",
            where=where,
            listed=join(", ", different),
        )


def load_into(
    model: nn.Module,
    checkpoint: Checkpoint,
    *,
    where: str,
    identity: Mapping[str, Any] | None = None,
) -> None:
    """Copy the weights into a model; a checkpoint of another model is a `TrainingError`."""
    if identity is not None:
        check_identity(checkpoint.state.get("identity"), identity, where)
    shapes, saved = (
        {name: tensor.shape for name, tensor in tensors.items()}
        for tensors in (model.state_dict(), checkpoint.weights)
    )
    wrong = sorted(name for name in {*shapes, *saved} if shapes.get(name) != saved.get(name))
    if wrong:
        raise TrainingError(
            "the checkpoint {where} is of another model: {num_tensors} tensors are missing, new "
            "or of another shape, the first {first!r}; use the model it is of, or train again",
            where=where,
            num_tensors=len(wrong),
            first=wrong[0],
        )
    model.load_state_dict(dict(checkpoint.weights))


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        safetensors.torch.save_file(tensors, path)
    except safetensors.SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def _refuse_compressed(file: IO[bytes]) -> None:
    """Raise ValueError for a file that is not as torch writes it now, or grows when it is read."""
    if file.read(4) != b"PK\x03\x04":
        raise ValueError("it is not a file of torch.save")
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    size = file.seek(0, os.SEEK_END)
    if any(entry.compress_type for entry in entries) or sum(e.file_size for e in entries) > size:
        raise ValueError("it holds more than it is long")
    file.seek(0)


def _check_plain(state: Any) -> None:
    """Raise ValueError for a state that is larger than its file: values and tensors in repetition.

    What we write are dense tensors; a hostile one can be a single number with a shape of billions.
    """
    if not isinstance(state, dict):
        raise ValueError("expected a dict")
    waiting, num_values = [state], 0
    while waiting:
        value = waiting.pop()
        num_values += 1
        if num_values > _MOST_VALUES:
            raise ValueError("it names values over and over")
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, Tensor):
            num_bytes = value.numel() * value.itemsize
            if not value.is_contiguous() or value.untyped_storage().nbytes() < num_bytes:
                raise ValueError(f"a tensor of {tuple(value.shape)} is not dense")
