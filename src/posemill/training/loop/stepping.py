"""The optimizer step that every mode shares.

A step sums the loss over samples, over micro-batches and over processes, and divides once, by the
number of all of them: accumulation and data parallel give the gradient of the whole batch, however
unequal the pieces are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from posemill.training.config.presets import COMPILES_ON_GPU
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.distributed import World
from posemill.training.loop.optimizers import WeightAverage, build_optimizer
from posemill.training.loop.precision import Precision
from posemill.training.loop.timing import Clock
from posemill.training.tasks.workload import Workload


class Stepper:
    """Takes optimizer steps; reads nothing back from the device unless asked to.

    Args:
        workload: Model (already on its device), forward and loss.
        config: The settings.
        device: Where the model is.
        precision: Format of the forward pass.
        world: The processes that train together.
        clock: Gets the time of each part.
    """

    def __init__(
        self,
        workload: Workload,
        config: TrainConfig,
        *,
        device: torch.device,
        precision: Precision,
        world: World,
        clock: Clock,
    ) -> None:
        self.workload, self.config, self.device = workload, config, device
        self.precision, self.world, self.clock = precision, world, clock
        self.model: nn.Module = workload.model
        self.optimizer = build_optimizer(self.model, config, device)
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision.needs_scaler)
        decay = config.ema_decay
        self.average = WeightAverage(self.model, decay) if decay else None
        self.steps_taken = 0
        self._runner: nn.Module = self.model
        if uses_compile(config, device):
            self._runner = cast(nn.Module, torch.compile(self.model))
        self._trained = [p for p in self.model.parameters() if p.requires_grad]
        # Loss sum and number of samples since the last read, over all processes.
        self._totals = torch.zeros(2, dtype=torch.float64, device=device)
        world.attach_gradients(self.model)

    def take(self, batches: Iterator[Any], num_micro: int, lr: float) -> None:
        """Take one step over the next `num_micro` batches."""
        clock, counts = self.clock, torch.zeros_like(self._totals)
        self.world.zero_gradients(self.optimizer)
        for _ in range(num_micro):
            batch = next(batches)
            clock.lap("data")
            batch = batch.to(self.device, non_blocking=True)
            clock.lap("transfer")
            loss_sum, count = self._forward(batch)
            clock.lap("forward")
            # Scaled by the usual size of a batch, to keep fp16 gradients in range.
            self.scaler.scale(loss_sum / self.config.batch_size).backward()  # type: ignore[no-untyped-call]
            counts[0] += loss_sum.detach()
            counts[1] += count
            clock.lap("backward")
        self.world.sum_gradients(counts)
        self._totals += counts
        self._update(counts[1], lr)
        clock.lap("optimizer")

    def _forward(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        with self.precision.autocast():
            output = self.workload.forward(self._runner, batch)
        return self.workload.loss(as_float(output), batch)

    def _update(self, count: Tensor, lr: float) -> None:
        self.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in self._trained if p.grad is not None]
        factor = (self.config.batch_size / count.clamp_min(1e-12)).to(torch.float32)
        if self.config.clip_grad_norm:
            # As nn.utils.clip_grad_norm_, but with one pass over the gradients for both factors.
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)])
            norm = torch.linalg.vector_norm(norms) * factor
            factor = factor * (self.config.clip_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, factor)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average:
            self.average.update(self.steps_taken)
        self.steps_taken += 1

    def read_totals(self) -> tuple[float, int]:
        """Return (mean loss, samples) since the last call; waits for the device."""
        loss_sum, count = self._totals.tolist()
        self._totals.zero_()
        return (loss_sum / count if count else 0.0), round(count)


def uses_compile(config: TrainConfig, device: torch.device) -> bool:
    """Return True where the model is to be compiled: asked for, or a GPU and a fast preset."""
    if config.compile == "auto":
        return device.type == "cuda" and config.preset in COMPILES_ON_GPU
    return config.compile == "on"


def as_float(output: Any) -> Any:
    """Return the output with half-precision tensors in fp32: losses are computed in fp32."""
    if isinstance(output, Tensor):
        return output.float() if output.dtype in (torch.bfloat16, torch.float16) else output
    if isinstance(output, (tuple, list)):
        parts = [as_float(part) for part in output]
        is_named = hasattr(output, "_fields")
        return type(output)(*parts) if is_named else type(output)(parts)
    if isinstance(output, dict):
        return {name: as_float(part) for name, part in output.items()}
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        fields = dataclasses.fields(output)
        return dataclasses.replace(
            output, **{f.name: as_float(getattr(output, f.name)) for f in fields}
        )
    return output
