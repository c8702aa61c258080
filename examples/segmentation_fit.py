"""Pictures and masks with `posemill.fit`: a class for every pixel, edges counted more.

The weight of a pixel follows from its distance to the nearest edge of a mask. That map takes long
to compute and is the same every time, so `posemill.cache_dataset` keeps it after its first use.

    python examples/segmentation_fit.py --out runs/segmentation
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import posemill

CLASSES = ("background", "disc", "square")
SIDE = 32


class Shapes:
    """Pictures with a disc and a square, drawn from a seed: `(picture, mask)`, float32 and int64.

    Args:
        count: How many.
        seed: Decides all of them.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng([self.seed, index])
        y, x = np.mgrid[:SIDE, :SIDE]
        mask = np.zeros((SIDE, SIDE), np.int64)
        for label in (1, 2):
            centre_y, centre_x = rng.uniform(8, SIDE - 8, 2)
            radius = rng.uniform(4, 7)
            if label == 1:
                mask[np.hypot(y - centre_y, x - centre_x) < radius] = 1
            else:
                mask[np.maximum(abs(y - centre_y), abs(x - centre_x)) < radius] = 2
        brightness = np.array([0.2, 0.8, 0.5])[mask] + rng.normal(0, 0.1, mask.shape)
        return torch.from_numpy(brightness[None].astype(np.float32)), torch.from_numpy(mask)


class WithEdgeDistance:
    """Adds to each sample the distance of every pixel to the nearest edge `(H, W)`, in pixels."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        picture, mask = self.shapes[index]
        return {"picture": picture, "mask": mask, "distance": edge_distance(mask)}


def edge_distance(mask: Tensor) -> Tensor:
    """Return `(H, W)` float32: pixels to the nearest pixel beside another class."""
    edge = torch.zeros_like(mask, dtype=torch.bool)
    edge[1:] |= mask[1:] != mask[:-1]
    edge[:, 1:] |= mask[:, 1:] != mask[:, :-1]
    everywhere = torch.stack(torch.meshgrid(*map(torch.arange, mask.shape), indexing="ij"), -1)
    # Every pixel against every pixel of an edge: slow, as it is for real masks.
    distances = torch.cdist(everywhere.reshape(-1, 2).float(), edge.nonzero().float())
    return distances.min(1).values.reshape(mask.shape)


class Flipped:
    """Mirrors every second sample: what is drawn anew every time stays around the cache."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        is_flipped = bool(torch.rand(()) < 0.5)
        sample = self.samples[index]
        return {name: part.flip(-1) if is_flipped else part for name, part in sample.items()}


class Net(nn.Module):
    """A few convolutions; `forward` names the entry of the batch that it takes."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, width, 5, padding=4, dilation=2), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv2d(width, len(CLASSES), 1),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> Tensor:
        """Return scores of classes `(B, 3, H, W)` of pictures `(B, 1, H, W)`."""
        scores: Tensor = self.layers(picture)
        return scores


def edge_loss(scores: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean cross entropy, a pixel at an edge counted three times."""
    weights = 1 + 2 * torch.exp(-batch["distance"] / 2)
    losses = nn.functional.cross_entropy(scores, batch["mask"], reduction="none")
    return (losses * weights).mean()


def overlap(scores: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Return `(B,)`: intersection over union of the shapes in each picture."""
    said, true = scores.argmax(1), batch["mask"]
    both = ((said == true) & (true > 0)).sum((1, 2))
    any_ = ((said > 0) | (true > 0)).sum((1, 2))
    return both / any_


def edge_error(scores: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Return the share of wrong pixels within two pixels of an edge."""
    is_near = batch["distance"] <= 2
    return (scores.argmax(1) != batch["mask"])[is_near].float().mean()


def draw(axes: Any, sample: dict[str, Tensor], scores: Tensor) -> None:
    """Draw the picture, with what the model said as lines."""
    axes.imshow(sample["picture"][0].numpy(), cmap="gray")
    axes.contour(scores.argmax(0).numpy(), levels=[0.5, 1.5], colors=["#c05621", "#2b6cb0"])


def main(arguments: list[str] | None = None) -> Any:
    """Train, and return the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="", help="folder of the run")
    parser.add_argument("--cache", default=None, help="folder of the cache")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=96)
    options = parser.parse_args(arguments)

    def data(count: int, seed: int) -> Any:
        key = {"data": "shapes", "seed": seed, "side": SIDE, "step": "edge_distance 1"}
        slow = WithEdgeDistance(Shapes(count, seed))
        return posemill.cache_dataset(slow, key=key, folder=options.cache, limit_gb=1)

    torch.manual_seed(0)
    return posemill.fit(
        Net(), Flipped(data(options.samples, 0)), data(options.samples // 4, 1),
        loss=edge_loss, metrics={"overlap": overlap, "edge_error": (edge_error, "min")},
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
        draw_sample=draw, class_names=CLASSES,
        epochs=options.epochs, batch_size=8, parallel="single", workers=0, out=options.out,
    )  # fmt: skip


if __name__ == "__main__":
    result = main()
    print(result.out, dict(result.scores["dev"]))  # noqa: T201
