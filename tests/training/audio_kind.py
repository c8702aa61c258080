"""A kind of data from outside of posemill: features of sound, as a package of one file has it."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from posemill.training.data.batches import Batch, pad_targets
from posemill.training.data.clips import Clips
from posemill.training.tasks.kinds import Kind


class AudioClips(Clips):
    """Files `SPLIT/LABEL/NAME.npy` of `(T, C)` numbers."""

    def __init__(self, files, class_names, split):
        self.sounds = [np.load(file).astype(np.float32) for file in files]
        self.lengths = np.asarray([len(sound) for sound in self.sounds])
        self.targets = [class_names.index(file.parent.name) for file in files]
        self.class_names = class_names
        self.keys = [(split, f"{file.parent.name}/{file.stem}") for file in files]

    @property
    def shape(self):
        """Numbers of a moment."""
        return {"num_channels": self.sounds[0].shape[1]}

    def __getitems__(self, draws):
        """Return sounds padded with silence, and their lengths."""
        sounds = [torch.from_numpy(self.sounds[draw.clip]) for draw in draws]
        lengths = torch.tensor([len(sound) for sound in sounds])
        padded = nn.utils.rnn.pad_sequence(sounds, batch_first=True)
        targets = [self.targets[draw.clip] for draw in draws]
        return Batch((padded, lengths), lengths=lengths, **pad_targets(targets, draws))


class AudioKind(Kind):
    """Sounds; the model is a mean over time and a linear layer."""

    name = "audio"

    def load(self, config, *, class_names=None, splits=None):
        """Return the sounds by split."""
        root = Path(config.data.path)
        names = class_names or sorted(folder.name for folder in (root / "train").iterdir())
        return {
            folder.name: AudioClips(sorted(folder.rglob("*.npy")), tuple(names), folder.name)
            for folder in sorted(root.iterdir())
            if not splits or folder.name in splits
        }

    def build(self, identity):
        """Return a new model."""
        return MeanNet(identity["num_channels"], identity["num_classes"])


class MeanNet(nn.Module):
    """`(B, T, C)` and lengths in, logits out."""

    def __init__(self, num_channels, num_classes):
        super().__init__()
        self.head = nn.Linear(num_channels, num_classes)

    def forward(self, sounds, lengths):
        """Return logits `(B, classes)`."""
        return self.head(sounds.sum(1) / lengths[:, None])
