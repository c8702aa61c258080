"""What reading clips costs a training: waiting for data, and what frames decoded before save.

    python -m benchmarks.training.video_loading [--videos FOLDER] [--clips 120] [--opens 10000]
        [--steps 30] [--rounds 3] [--json]

`wait` is the share of a training's time in which a small network (residual blocks of 16 to 128
channels) waits for batches of 8 clips x 8 frames x 112 x 112 from packed frames, with one loader
process. `jpeg` and `packed` are the CPU time of a clip from a list of real videos (../shared/
datasets/gestures5; `signs_…`: sign_videos6) by the CPU time of the same clip from what `posemill
frames` made of them, in this process with one thread. `handles` and `memory` are what opening
10,000 videos leaves behind.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import posemill
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    not_here,
    over_rounds,
    ratio,
    report,
    say,
)

VIDEOS = Path(__file__).parents[3] / "shared" / "datasets" / "gestures5"
SIGNS = VIDEOS.with_name("sign_videos6")
BATCH, SIZE, SAMPLING = 8, 112, "segments:8"


class SmallNetwork(nn.Module):
    """Residual blocks of 16 to 128 channels over frames, their mean over a clip, classes."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.to_floats = posemill.ClipTransform(SIZE)
        widths, layers = (16, 16, 32, 64, 128), []
        layers += [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2, 1)]
        for before, after in pairwise(widths):
            layers += [_Block(before, after, 1 if before == after else 2)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(widths[-1], num_classes)

    def forward(self, frames: Tensor, view: Tensor) -> Tensor:
        """Return scores of classes `(B, classes)`."""
        clips = self.to_floats(frames, view)
        found = self.layers(clips.flatten(0, 1)).mean((2, 3))
        scores: Tensor = self.head(found.reshape(len(clips), -1, found.shape[-1]).mean(1))
        return scores


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.one(x)).relu()
        outer: Tensor = (self.norms[1](self.two(inner)) + self.short(x)).relu()
        return outer


def share_waited(index: Path, steps: int) -> float:
    """Return the share of the time of some steps in which the network waits for its batch."""
    augment = posemill.ClipAugment(mirror_labels={})
    clips = posemill.VideoClips(index, split="train", sampling=SAMPLING, size=SIZE, augment=augment)
    loader: DataLoader[Any] = DataLoader(
        clips, BATCH, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True
    )
    torch.set_num_threads(1)  # the other core is the loader's
    model = SmallNetwork(len(clips.classes)).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = _again_and_again(loader)
    next(batches)  # the process has to start
    waited = worked = 0.0
    for _ in range(steps):
        begun = time.perf_counter()
        batch = next(batches)
        there = time.perf_counter()
        output = model(batch["frames"], batch["view"])
        loss: Any = nn.functional.cross_entropy(output, batch["target"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        waited += there - begun
        worked += time.perf_counter() - there
    return waited / (waited + worked)


def _again_and_again(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def cost_of_clips(sources: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of reading all clips once, from each source, in each round."""
    sets = {
        name: posemill.VideoClips(path, sampling=SAMPLING, size=SIZE, is_training=True)
        for name, path in sources.items()
    }

    def read(name: str) -> None:
        for index in range(len(sets[name])):
            sets[name].at_epoch(index, 0)

    return in_turns({name: partial(read, name) for name in sets}, rounds)


def left_behind(index: Path, opens: int) -> tuple[int, float, float]:
    """Return handles and the share of memory that opening videos left, and the megabytes."""
    clips = posemill.VideoClips(index, sampling="uniform:1", size=SIZE, max_open=1)
    process = psutil.Process()
    for number in range(opens // 10):  # what the first ones leave is for all of them
        clips[number % len(clips)]
    handles, memory = process.num_fds(), process.memory_full_info().uss
    for number in range(opens // 10, opens):
        clips[number % len(clips)]
    now = process.memory_full_info().uss
    return process.num_fds() - handles, now / memory - 1, now / 1e6


def choose_videos(folder: Path, count: int, out: Path) -> Path:
    """Write a list of some training videos of a set, of every label as many."""
    with (folder / "labels.csv").open(newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["split"] == "train"]
    rows.sort(key=lambda row: row["path"])
    chosen = rows[:: max(1, len(rows) // count)][:count]
    with out.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["path", "clip_id", "split", "label"])
        writer.writerows(
            [folder / row["path"], Path(row["path"]).stem, "train", row["label"]] for row in chosen
        )
    return out


def megabytes(folder: Path) -> float:
    """Return what a folder takes on the disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    """Make the frames, measure, print."""
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=Path, default=VIDEOS)
    parser.add_argument("--clips", type=int, default=120)
    parser.add_argument("--opens", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.videos = options.videos.resolve()
    if not (options.videos / "labels.csv").is_file():
        not_here(f"no {options.videos / 'labels.csv'}: videos kept outside of the project")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        videos, packed, found = what_frames_buy(options.videos, folder / "one", options)
        if (SIGNS / "labels.csv").is_file():
            *_, more = what_frames_buy(SIGNS, folder / "two", options)
            found |= {f"signs_{arm}": each for arm, each in more.items()}
        waits = [share_waited(packed, options.steps) for _ in range(options.rounds)]
        handles, growth, memory = left_behind(videos, options.opens)
    report(
        {
            "wait": over_rounds(100 * each for each in waits),
            **found,
            "handles": Measured(handles).noted(f"{options.opens} opens"),
            "memory": Measured(100 * growth).noted(f"of {memory:.0f} MB"),
        },
        as_json=options.json,
    )


def what_frames_buy(
    videos: Path, folder: Path, options: Any
) -> tuple[Path, Path, dict[str, Measured]]:
    """Return a list of videos of a set, its packed frames, and by how much reading is cheaper."""
    folder.mkdir()
    chosen = choose_videos(videos, options.clips, folder / "videos.csv")
    sources = {"video": chosen, "jpeg": folder / "jpeg", "packed": folder / "packed"}
    for name in ("jpeg", "packed"):
        posemill.frames(
            chosen,
            sources[name],
            resize=SIZE,
            short_side=True,
            pack=name == "packed",
            progress=False,
        )
    costs = cost_of_clips(sources, options.rounds)
    said = []
    for arm, seconds in costs.items():
        each = over_rounds(seconds).value / options.clips * 1e3
        place = "" if arm == "video" else f" ({megabytes(sources[arm]):.0f} MB)"
        said.append(f"{arm} {each:.2f}{place}")
    note = f"{SAMPLING}, {SIZE} x {SIZE}, {options.clips} clips of {videos.name}"
    say(f"{note}: {', '.join(said)} ms of CPU a clip")
    found = {arm: ratio(costs["video"], costs[arm]).noted(note) for arm in ("jpeg", "packed")}
    return chosen, sources["packed"], found


if __name__ == "__main__":
    main()
