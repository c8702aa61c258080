"""Samples a second of our training loop against a plain PyTorch loop, Fabric and Accelerate.

    python benchmarks/train_throughput.py [--rounds 20] [--quick] [--json out.json]

All arms train the same model on the same clips for an epoch, one after the other in turns, on one
thread; CPU time of the process, ratio of medians. First the losses are compared: ours, Fabric and
Accelerate see the same batches, and their first six losses must agree to 1e-5.

The plain loop is as commonly written: one npz a clip read in `__getitem__`, normalised there, no
loader process, shuffled and padded to the longest of the batch, fp32, `.item()` every step, a
checkpoint with `torch.save` every epoch. Fabric and Accelerate get our batches and our settings.
"""

from __future__ import annotations

import argparse
import copy
import csv
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.data.normalize import preparation
from posemill.training.loop.distributed import World
from posemill.training.loop.optimizers import build_optimizer
from posemill.training.loop.precision import choose_precision
from posemill.training.loop.trainer import Trainer
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import build_workload
from posemill.training.tasks.workload import Workload

CPU = torch.device("cpu")
NUM_POINTS, NUM_CLASSES = 143, 20
MODEL = {"width": 64, "num_layers": 2, "num_heads": 4, "stride": 4, "dropout": 0.0}


def write_clips(folder: Path, count: int) -> None:
    """Write the clips twice: packed as `posemill prepare` does, and one npz each."""
    rng = np.random.default_rng(0)
    (folder / "each").mkdir(parents=True)
    lengths = rng.integers(40, 240, count)
    labels = rng.integers(0, NUM_CLASSES, count)
    points, ids, rows = [], [], [("video_id", "label")]
    for index, (length, label) in enumerate(zip(lengths, labels, strict=True)):
        drift = (
            np.linspace(0, 1, length)[:, None, None]
            * np.sin(label + np.arange(NUM_POINTS))[:, None]
        )
        clip = (
            rng.random((1, NUM_POINTS, 3)) + drift + rng.normal(size=(length, NUM_POINTS, 3)) * 0.02
        )
        points.append(clip.astype(np.float32))
        ids += [f"c{index:05d}"] * int(length)
        rows.append((f"c{index:05d}", f"k{label:02d}"))
        np.savez(folder / "each" / f"c{index:05d}.npz", keypoints=points[-1], label=label)
    np.savez(folder / "train_keypoints.npz", keypoints=np.concatenate(points), video_ids=ids)
    with (folder / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)


class PlainClips(Dataset):  # type: ignore[type-arg]
    """One npz a clip, opened and normalised whenever it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.npz"))
        self.prepare = preparation(normalize="auto", skeleton_name="holistic-143").function

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
        folder.make()
        trainer = Trainer(self.fresh(), self.config, world=World(), device=CPU,
                          precision=choose_precision("fp32", CPU), folder=folder)  # fmt: skip
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
        loader = EpochLoader(self.workload.train, self.config, World(), shuffle=True)
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
            total, count = plain.loss(model(batch.points, batch.mask, batch.lengths), batch)
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
            total, count = plain.loss(model(batch.points, batch.mask, batch.lengths), batch)
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
    arms_losses = [arms.fabric(), arms.accelerate()]
    return max(abs(a - b) for other in arms_losses for a, b in zip(ours[:6], other, strict=False))


def measure(arms: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each arm in each round; the order turns with the rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    names = list(arms)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.process_time()
            arms[name]()
            if turn:  # the first round warms up
                seconds[name].append(time.process_time() - started)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clips", type=int, default=512)
    parser.add_argument("--quick", action="store_true", help="64 clips, 2 rounds: does it run?")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds, clips = (2, 64) if options.quick else (options.rounds, options.clips)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_clips(folder, clips)
        config = TrainConfig(
            data=str(folder / "train_keypoints.npz"), labels=str(folder / "labels.csv"),
            skeleton="holistic-143", model="transformer", model_options=MODEL, epochs=1,
            batch_size=16, micro_batch=16, scheduler="constant", warmup_epochs=0.0, mode="single",
            precision="fp32", num_workers=0, log_every=1, progress=False, tensorboard=False,
            figures=False, cache="mmap", cache_folder=str(folder / "cache"),
        )  # fmt: skip
        difference = check_equal(Arms(folder / "", config))
        print(f"equal losses: largest difference {difference:.1e}")
        if difference > 1e-5:
            raise SystemExit("the arms do not train the same: no comparison")
        arms = Arms(folder, config.replace(log_every=20))
        arms.number = 10
        table = measure(
            {"posemill": arms.ours, "plain": arms.plain, "fabric": arms.fabric,
             "accelerate": arms.accelerate}, rounds,
        )  # fmt: skip
    medians = {name: statistics.median(values) for name, values in table.items()}
    ours = table["posemill"]
    result = {}
    for name, values in table.items():
        ratios = sorted(other / own for other, own in zip(values, ours, strict=True))
        ratio = medians[name] / medians["posemill"]
        spread = (ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4])
        result[name] = {"samples_per_second": clips / medians[name], "ratio": ratio,
                        "quartiles": spread}  # fmt: skip
        print(f"{name:<11} {clips / medians[name]:8.1f} samples/s   posemill is {ratio:.3f} x "
              f"(middle half of rounds {spread[0]:.3f} to {spread[1]:.3f})")  # fmt: skip
    goals = {"plain": 2.0, "fabric": 1.0, "accelerate": 1.0}
    for name, goal in goals.items():
        met = "reached" if result[name]["ratio"] >= goal else "NOT reached"
        print(f"goal against {name}: {goal} x: {met}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
