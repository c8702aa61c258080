"""The Multigrid schedule: which shape of clips, how many at once, at which learning rate, when.

A step on half of the frames costs half, so it may take twice the clips. Within every step of the
learning rate the shapes go from the smallest to the full one (the long cycle); within an epoch the
crop changes from one batch to the next (the short cycle). Wu et al., "A Multigrid Method for
Efficiently Training Video Models", 2020. Pure numbers: nothing here knows a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from posemill.training.data.clips import LONG_CYCLE, SHORT_CYCLE, Shape


@dataclass(frozen=True)
class Phase:
    """Epochs in a row with one shape of the long cycle."""

    lr_step: int  # how often the learning rate has fallen
    shapes: tuple[Shape, ...]  # of the batches of an epoch, in turn; the last is the long cycle's
    start_epoch: int
    stop_epoch: int  # the first one after it; the same where rounding left it none


@dataclass(frozen=True)
class Multigrid:
    """A schedule that takes fewer iterations than a constant one of `epochs` epochs.

    Args:
        epochs: Of the constant schedule.
        num_frames: Frames of a whole clip.
        size: Side of its pictures.
        lr_steps: Epochs of the constant schedule where the learning rate falls, rising; after the
            last one comes the fine-tune phase. None for the shares of the paper's example.
        grid: Shares of frames and size that the long cycle goes through; the last is (1, 1).
        has_short_cycle: Whether the size changes from batch to batch, too.
        epoch_factor: Epochs for one of the constant schedule: short clips teach less each.
        most_lr_factor: The learning rate grows with the batch of the long cycle up to so much.
        lr_power: It grows with this power of the batch: 1 for sgd, 1/2 for Adam and its kin, whose
            steps do not shrink with the noise of the gradient.
    """

    epochs: int
    num_frames: int = 32
    size: int = 224
    lr_steps: tuple[float, ...] | None = None
    grid: tuple[tuple[float, float], ...] = LONG_CYCLE
    has_short_cycle: bool = True
    epoch_factor: float = 1.5
    most_lr_factor: float = 8.0
    lr_power: float = 1.0

    def __post_init__(self) -> None:
        rising = [0, *self.steps, self.epochs]
        if len(rising) < 3 or any(later <= before for before, later in pairwise(rising)):
            raise ValueError(
                f"lr_steps: expected epochs that rise, above 0 and below {self.epochs}; got "
                f"{list(self.steps)}"
            )
        if not self.grid or self.grid[-1] != (1.0, 1.0):
            raise ValueError(f"grid: expected shares that end with (1, 1), got {self.grid}")
        if min(self.num_frames, self.size) < 1 or self.epoch_factor <= 0 or self.most_lr_factor < 1:
            raise ValueError(
                "expected num_frames and size of 1 or more, epoch_factor above 0 and "
                f"most_lr_factor of 1 or more; got {self.num_frames}, {self.size}, "
                f"{self.epoch_factor}, {self.most_lr_factor}"
            )

    @property
    def steps(self) -> tuple[float, ...]:
        """Epochs of the constant schedule where the learning rate falls."""
        if self.lr_steps is None:  # where it falls in the paper's example
            return tuple(step / 239 * self.epochs for step in (94, 154, 196))
        return self.lr_steps

    @cached_property
    def long_cycle(self) -> tuple[tuple[Shape, ...], ...]:
        """The shapes of the batches of an epoch, for each shape of the long cycle."""
        small = [self.size * share for share in SHORT_CYCLE if self.has_short_cycle]
        found = []
        for time, space in self.grid:
            frames, size = max(1, round(self.num_frames * time)), max(1, round(self.size * space))
            batch = round(self.num_frames * self.size**2 / (frames * size**2))
            sides = [*small, size]
            numbers = [batch * round((size / side) ** 2) for side in sides]
            pairs = zip(numbers, sides, strict=True)
            found.append(tuple(Shape(n, frames, max(1, round(side))) for n, side in pairs))
        return tuple(found)

    @cached_property
    def _raw_phases(self) -> list[tuple[int, tuple[Shape, ...], float]]:
        """(step of the learning rate, shapes, epochs that need not be whole) of each phase."""
        averages = [sum(s.batch for s in shapes) / len(shapes) for shapes in self.long_cycle]
        # Every shape of a step gets the same iterations: epochs in proportion to its batch.
        found = [
            (number, shapes, (stop - start) * average / sum(averages))
            for number, (start, stop) in enumerate(pairwise((0.0, *self.steps)))
            for shapes, average in zip(self.long_cycle, averages, strict=True)
        ]
        # The fine-tune phase saves as many iterations as the rest.
        saving = sum(averages) / len(averages)
        last = (self.epochs - self.steps[-1]) / saving * averages[-1]
        found.append((len(self.steps), self.long_cycle[-1], last))
        scale = self.epochs * self.epoch_factor / sum(epochs for *_, epochs in found)
        return [(number, shapes, epochs * scale) for number, shapes, epochs in found]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """All phases in order; the last is the fine-tune phase."""
        ends = [round(end) for end in accumulate(epochs for *_, epochs in self._raw_phases)]
        last = max(1, ends[-1])
        ends = [*(min(end, last - 1) for end in ends[:-1]), last]  # whole clips come last, always
        return tuple(
            Phase(number, shapes, start, stop)
            for (number, shapes, _), (start, stop) in zip(
                self._raw_phases, pairwise([0, *ends]), strict=True
            )
        )

    @property
    def total_epochs(self) -> int:
        """Epochs of all phases."""
        return self.phases[-1].stop_epoch

    @property
    def saving(self) -> float:
        """How many times fewer iterations than the constant schedule it takes, not rounded."""
        iterations = sum(
            epochs * len(shapes) / sum(shape.batch for shape in shapes)
            for _, shapes, epochs in self._raw_phases
        )
        return self.epochs / iterations

    def phase_at(self, epoch: float) -> Phase:
        """Return the phase of an epoch; of one after the end the last."""
        return next((p for p in self.phases if epoch < p.stop_epoch), self.phases[-1])

    def lr_factor(self, epoch: float) -> float:
        """Return what the learning rate of the constant schedule is multiplied by."""
        batch = self.phase_at(epoch).shapes[-1].batch
        return float(min(batch**self.lr_power, self.most_lr_factor))

    def lr_step(self, epoch: float) -> int:
        """Return how often the learning rate has fallen; in the fine-tune phase halfway."""
        phase = self.phase_at(epoch)
        is_late = epoch >= (phase.start_epoch + phase.stop_epoch) // 2
        return phase.lr_step if phase is not self.phases[-1] or is_late else phase.lr_step - 1

    def learning_rate(
        self,
        epoch: float,
        *,
        lr: float,
        gamma: float = 0.1,
        warmup_epochs: float = 0.0,
        warmup_from: float = 0.0,
    ) -> float:
        """Return the learning rate of a moment, of a constant schedule that falls in steps.

        Args:
            epoch: Epochs since the start, of all phases.
            lr: At the start of the constant schedule.
            gamma: What it is multiplied by at each of `lr_steps`.
            warmup_epochs: Epochs of a linear rise to the rate at its end.
            warmup_from: Where that begins.
        """
        at = max(epoch, warmup_epochs)
        rate = lr * gamma ** self.lr_step(at) * self.lr_factor(at)
        if epoch >= warmup_epochs:
            return rate
        return warmup_from + (rate - warmup_from) * epoch / warmup_epochs
