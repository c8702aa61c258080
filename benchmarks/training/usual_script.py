"""Training `tsm` from videos: our loop against the usual script and Lightning Fabric.

    python -m benchmarks.training.usual_script [--videos FOLDER] [--clips 96] [--rounds 3] [--json]

An epoch of batches of 8 clips x 8 frames x 112 x 112 of real videos (../shared/datasets/gestures5),
in turns, one thread, CPU time. The usual script reads each video with OpenCV in `__getitem__`, has
no loader process, computes in fp32 and reads the loss with `.item()` in every step. `usual` is its
time by ours as `posemill tune` leaves it on such data: decoded once, precision by the hardware,
channels last, clips augmented, which the script does not do; `usual_fp32` the same in fp32 without
channels last; `usual_cores` the wall time of the script, torch having all cores, by ours in as many
processes, their start aside; `fabric` is Fabric's time by ours on the same batches in fp32, whose
first losses must agree to 1e-5. `wait_packed` and `wait_jpeg` are the shares of a training in which
it waits for packs and for JPEGs of `posemill frames`, with one loader process, by the wall clock.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import posemill
from benchmarks.shared.measuring import in_turns, make_parser, not_here, over_rounds, ratio, report
from benchmarks.training.train_throughput import Arms
from benchmarks.training.video_loading import VIDEOS, choose_videos
from posemill.machine.limits import count_cores
from posemill.tables import read_table
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.timing import shares
from posemill.training.tasks.workload import build_workload

BATCH, FRAMES, SIZE = 8, 8, 112
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class UsualClips(Dataset):  # type: ignore[type-arg]
    """Each video read through by OpenCV whenever it is asked for."""

    def __init__(self, index: Path) -> None:
        self.rows = [row for _, row in read_table(index, names=("path", "label"), encoding="utf-8")]
        self.classes = sorted({row["label"] for row in self.rows})

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row, frames = self.rows[index], []
        video = cv2.VideoCapture(row["path"])
        while True:
            is_there, frame = video.read()
            if not is_there:
                break
            frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        video.release()
        chosen = np.linspace(0, len(frames) - 1, FRAMES).astype(int)
        clip = np.stack([cv2.resize(frames[number], (SIZE, SIZE)) for number in chosen])
        floats = (clip.astype(np.float32) / 255 - MEAN) / SPREAD
        return torch.from_numpy(floats.astype(np.float32)).permute(0, 3, 1, 2), self.classes.index(
            row["label"]
        )


class VideoArms(Arms):
    """The loops on video."""

    def __init__(self, folder: Path, config: TrainConfig, index: Path) -> None:
        self.folder, self.config, self.number = folder, config, 0
        self.workload = build_workload(config)
        self.start = copy.deepcopy(self.workload.model.state_dict())
        self.usual_set = UsualClips(index)

    def plain(self) -> list[float]:
        """Train as many do."""
        model: Any = self.fresh().model
        loader = DataLoader(self.usual_set, BATCH, shuffle=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.config.lr)
        criterion = nn.CrossEntropyLoss()
        losses = []
        model.train()
        for frames, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(frames, torch.full((len(frames),), FRAMES)), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), self.config.clip_grad_norm)
            optimizer.step()
            losses.append(loss.item())
        torch.save({"model": model.state_dict()}, self.folder / "plain.pt")
        return losses


def settings(data: Path, folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings that all arms share."""
    return {
        "data": str(data), "model": "tsm", "model_options": {"dropout": 0.0}, "video_size": SIZE,
        "video_sampling": f"segments:{FRAMES}",
        "epochs": 1, "batch_size": BATCH, "micro_batch": BATCH, "scheduler": "constant",
        "warmup_epochs": 0.0, "parallel": "single", "threads": 1, "workers": 0, "precision": "fp32",
        "log_every": 1, "dev_fraction": 0.0, "label_smoothing": 0.0, "lr": 1e-3, "progress": False,
        "tensorboard": False, "figures": False, "cache_folder": str(folder / "cache"), **more,
    }  # fmt: skip


def seconds_on_all_cores(index: Path, folder: Path, number: int) -> float:
    """Return the wall time of an epoch in one process a core, after the decoding, start aside."""
    epochs, out = 4, folder / f"cores{number}"
    fields = settings(index, folder, cache="mmap", precision="auto", channels_last=True,
                      parallel="multi_process", epochs=epochs, out=str(out))  # fmt: skip
    return float(sum(posemill.train(fields).summary["timing_seconds"].values())) / epochs


def share_waited(data: Path, folder: Path, number: int, workers: int) -> float:
    """Return the share of a training of two epochs in which it waits for data, in percent."""
    out = folder / f"wait{number}"
    fields = settings(data, folder, workers=workers, precision="auto", epochs=2, out=str(out))
    result = posemill.train(fields)
    return 100 * shares(result.summary["timing_seconds"])["data"]


def main() -> None:
    """Decode, measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=Path, default=VIDEOS, help="folder, or a set beside it")
    parser.add_argument("--clips", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.videos.is_dir():
        options.videos = VIDEOS.with_name(options.videos.name)
    options.videos = options.videos.resolve()
    if not (options.videos / "labels.csv").is_file():
        not_here(f"no {options.videos / 'labels.csv'}: videos kept outside of the project")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = choose_videos(options.videos, options.clips, folder / "videos.csv")
        # As `posemill tune` leaves it: decoded once; the round that warms up fills the cache.
        arms = VideoArms(folder, TrainConfig(**settings(index, folder, cache="mmap")), index)
        ours, fabric = arms.ours(), arms.fabric()
        difference = max(abs(a - b) for a, b in zip(ours[:6], fabric[:6], strict=True))
        if len(ours) != len(fabric) or difference > 1e-5:
            raise SystemExit(f"ours and Fabric do not train the same: {difference:.1e}")
        arms.config = arms.config.replace(log_every=20)
        tuned = copy.copy(arms)
        tuned.folder = folder / "tuned"
        # A model of its own: channels last is laid out in the weights, and would stay for all arms.
        own = copy.deepcopy(arms.workload.model)
        tuned.workload = dataclasses.replace(arms.workload, model=own)
        tuned.config = arms.config.replace(precision="auto", channels_last=True)
        loops = {"ours": arms.ours, "tuned": tuned.ours, "usual": arms.plain, "fabric": arms.fabric}
        taken = in_turns(loops, options.rounds)
        on_cores: dict[str, list[float]] = {"usual": [], "ours": []}
        for number in range(options.rounds):
            torch.set_num_threads(count_cores())
            started = time.perf_counter()
            arms.plain()
            on_cores["usual"].append(time.perf_counter() - started)
            torch.set_num_threads(1)
            on_cores["ours"].append(seconds_on_all_cores(index, folder, number))
        speeds = {arm: options.clips / over_rounds(values).value for arm, values in taken.items()}
        waits: dict[str, list[float]] = {"packed": [], "jpeg": []}
        for kind in waits:
            posemill.frames(index, folder / kind, resize=SIZE, short_side=True,
                            pack=kind == "packed", progress=False)  # fmt: skip
        for number in range(options.rounds):
            for place, kind in enumerate(waits):
                waits[kind].append(share_waited(folder / kind, folder, 2 * number + place, 1))
    found = {
        "usual": ratio(taken["usual"], taken["tuned"]).noted(
            f"{speeds['tuned']:.0f} and {speeds['usual']:.0f} clips/s of CPU"
        ),
        "usual_fp32": ratio(taken["usual"], taken["ours"]).noted(f"{speeds['ours']:.0f} clips/s"),
        "usual_cores": ratio(on_cores["usual"], on_cores["ours"]).noted(
            f"{options.clips / over_rounds(on_cores['ours']).value:.0f} and "
            f"{options.clips / over_rounds(on_cores['usual']).value:.0f} clips/s"
        ),
        "fabric": ratio(taken["fabric"], taken["ours"]).noted(f"losses within {difference:.0e}"),
    }
    found |= {f"wait_{kind}": over_rounds(values) for kind, values in waits.items()}
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
