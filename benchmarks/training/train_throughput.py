"""Samples a second of our training loop against a plain PyTorch loop, Fabric and Accelerate.

    python -m benchmarks.training.train_throughput [--rounds 20] [--clips 512] [--json]

All arms train the same model on the same clips for an epoch, one after the other in turns, on one
thread; CPU time of the process. First the losses are compared: ours, Fabric and
Accelerate see the same batches, as many, with no dev share to score after them, and their first six
losses must agree to 1e-5.

The plain loop is as commonly written: one npz a clip read in `__getitem__`, normalised there, no
loader process, shuffled and padded to the longest of the batch, fp32, `.item()` every step, a
checkpoint with `torch.save` every epoch. Fabric and Accelerate get our batches and our settings.
Against these two the difference is below the noise of the time, so the instructions of an epoch
with next to nothing to compute (a tiny model, clips of eight frames) are counted: what the loops
add.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.shared.instructions import Counter, count_here, missing
from benchmarks.shared.made_up import write_clips
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    over_rounds,
    ratio,
    report,
    say,
)
from posemill.machine.allocator import freed_memory_returned
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.data.normalize import Preparation
from posemill.training.loop.stepping import build_optimizer
from posemill.training.loop.trainer import Trainer
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime, numeric_settings
from posemill.training.tasks.workload import Workload, build_workload

CPU = torch.device("cpu")
NUM_CLASSES = 20
MODEL = {"width": 64, "num_layers": 2, "num_heads": 4, "stride": 4, "dropout": 0.0}
TINY_MODEL = {"width": 8, "num_layers": 1, "num_heads": 1, "stride": 4, "dropout": 0.0}


class PlainClips(Dataset):  # type: ignore[type-arg]
    """One npz a clip, opened and normalised whenever it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.npz"))
        self.prepare = Preparation(skeleton_name="holistic-143")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        with np.load(self.paths[index]) as arrays:
            points, label = arrays["keypoints"], int(arrays["label"])
        points, mask = self.prepare(points, np.ones(points.shape[:2], bool))
        return torch.from_numpy(points), torch.from_numpy(mask), label


def pad(samples: list[Any]) -> tuple[torch.Tensor, ...]:
    """Pad to the longest of the batch."""
    points = nn.utils.rnn.pad_sequence([sample[0] for sample in samples], batch_first=True)
    mask = nn.utils.rnn.pad_sequence([sample[1] for sample in samples], batch_first=True)
    lengths = torch.tensor([len(sample[0]) for sample in samples])
    return points, mask, lengths, torch.tensor([sample[2] for sample in samples])


class Arms:
    """The four loops; each trains one epoch from the same weights."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        self.folder, self.config = folder, config
        self.workload = build_workload(config)
        self.start = copy.deepcopy(self.workload.model.state_dict())
        self.plain_set = PlainClips(folder / "each")
        self.number = 0

    def fresh(self) -> Workload:
        """Return the workload with the weights as they were."""
        self.workload.model.load_state_dict(self.start)
        return self.workload

    def ours(self) -> list[float]:
        """Train with posemill, checkpoints and logs included."""
        self.number += 1
        folder = RunFolder(self.folder / f"run{self.number}")
        folder.path.mkdir(parents=True)
        trainer = Trainer(self.fresh(), self.config, Runtime().using(self.config), folder)
        with freed_memory_returned(), numeric_settings(self.config):  # as `train_rank` does
            trainer.run()
        return [row["loss"] for row in folder.read_metrics()]

    def plain(self) -> list[float]:
        """Train as many do."""
        model = self.fresh().model
        loader = DataLoader(self.plain_set, self.config.batch_size, shuffle=True, collate_fn=pad)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.config.lr)
        criterion = nn.CrossEntropyLoss()
        losses = []
        model.train()
        for points, mask, lengths, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(points, mask, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), self.config.clip_grad_norm)
            optimizer.step()
            losses.append(loss.item())
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, self.folder / "plain.pt")
        return losses

    def batches(self) -> Iterator[Any]:
        """Our batches, for the other frameworks."""
        loader = EpochLoader(self.workload.train, self.config, Runtime(), shuffle=True)
        return loader.batches()

    def fabric(self) -> list[float]:
        """Train with Lightning Fabric on our batches."""
        from lightning_fabric import Fabric

        fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
        plain = self.fresh()
        model, optimizer = fabric.setup(plain.model, build_optimizer(plain.model, self.config, CPU))
        model.train()
        losses, waiting = [], []
        for step, batch in enumerate(self.batches()):
            total, count = plain.task.loss(plain.task.call(model, batch), batch)
            loss = total / count
            optimizer.zero_grad(set_to_none=True)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=self.config.clip_grad_norm)
            optimizer.step()
            waiting.append(loss.detach())
            if (step + 1) % self.config.log_every == 0:
                losses += [value.item() for value in waiting]
                waiting = []
        fabric.save(self.folder / "fabric.pt", {"model": model, "optimizer": optimizer})
        return losses + [value.item() for value in waiting]

    def accelerate(self) -> list[float]:
        """Train with Accelerate on our batches."""
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        plain = self.fresh()
        model, optimizer = accelerator.prepare(
            plain.model, build_optimizer(plain.model, self.config, CPU)
        )
        model.train()
        losses, waiting = [], []
        for step, batch in enumerate(self.batches()):
            total, count = plain.task.loss(plain.task.call(model, batch), batch)
            loss = total / count
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), self.config.clip_grad_norm)
            optimizer.step()
            waiting.append(loss.detach())
            if (step + 1) % self.config.log_every == 0:
                losses += [value.item() for value in waiting]
                waiting = []
        accelerator.save_state(str(self.folder / "accelerate"))
        return losses + [value.item() for value in waiting]


def check_equal(arms: Arms) -> float:
    """Return the largest difference of the first losses of ours, Fabric and Accelerate.

    Later ones drift: adam blows up the last bit of gradients that are zero.
    """
    ours = arms.ours()
    others = [arms.fabric(), arms.accelerate()]
    if any(len(losses) != len(ours) for losses in others):
        raise SystemExit("the arms do not do the same: one takes more steps, or evaluates")
    return max(abs(a - b) for losses in others for a, b in zip(ours[:6], losses[:6], strict=True))


def count(clips: int, folder: Path) -> None:
    """Print the instructions of an epoch of each arm; under callgrind."""
    counter = Counter(folder)
    with tempfile.TemporaryDirectory() as scratch:
        arms = make_arms(Path(scratch), [8] * clips, TINY_MODEL)
        counts = {}
        for name in ("ours", "fabric", "accelerate"):
            arm = getattr(arms, name)
            arm()  # warms up
            counts[name] = counter.count(arm)
    print(json.dumps(counts))


def make_arms(folder: Path, lengths: Sequence[int], model: dict[str, Any]) -> Arms:
    """Return the arms on made-up clips of these lengths."""
    torch.set_num_threads(1)
    write_clips(folder, lengths, NUM_CLASSES, one_file_each=True)
    config = TrainConfig(
        data=str(folder / "train_keypoints.npz"), labels=str(folder / "labels.csv"),
        skeleton="holistic-143", model="transformer", model_options=model, epochs=1,
        batch_size=16, micro_batch=16, scheduler="constant", warmup_epochs=0.0, mode="single",
        precision="fp32", num_workers=0, log_every=1, progress=False, tensorboard=False,
        figures=False, cache="mmap", cache_folder=str(folder / "cache"), dev_fraction=0.0,
        # As the other arms have it, whatever is usual.
        num_dims=0, label_smoothing=0.0, lr=1e-3, augment_rotate=0.0, augment_scale=0.0,
        augment_noise=0.0, augment_time_warp=0.0, augment_crop=0.0,
    )  # fmt: skip
    return Arms(folder, config)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["count"]:
        count(int(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clips", type=int, default=512)
    parser.add_argument("--count", type=int, default=128, help="clips to count instructions with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        lengths = np.random.default_rng(0).integers(40, 240, options.clips)
        arms = make_arms(Path(scratch), lengths, MODEL)
        difference = check_equal(arms)
        say(f"equal losses: largest difference {difference:.1e}")
        if difference > 1e-5:
            raise SystemExit("the arms do not train the same: no comparison")
        arms.config = arms.config.replace(log_every=20)
        loops = {"posemill": arms.ours, "plain": arms.plain, "fabric": arms.fabric,
                 "accelerate": arms.accelerate}  # fmt: skip
        taken = in_turns(loops, options.rounds)
    speeds = {name: options.clips / over_rounds(values).value for name, values in taken.items()}
    found = {}
    for name in ("plain", "fabric", "accelerate"):
        note = f"{speeds['posemill']:.0f} and {speeds[name]:.0f} samples/s"
        found[name] = ratio(taken[name], taken["posemill"]).noted(note)
    if options.count and not missing():
        counts = count_here("benchmarks.training.train_throughput", "count", str(options.count))
        for name in ("fabric", "accelerate"):
            found[f"{name}_instructions"] = Measured(counts[name] / counts["ours"])
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
