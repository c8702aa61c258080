"""The optimizer step that every mode shares.

A step sums the loss over samples, over micro-batches and over processes, and divides once, by the
number of all of them: accumulation and data parallel give the gradient of the whole batch, however
unequal the pieces are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from posemill.errors import TrainingError
from posemill.training.config.run_settings import COMPILES_ON_GPU
from posemill.training.config.train_config import TrainConfig
from posemill.training.lazy_dynamo import load_dynamo_late
from posemill.training.loop.passes import Objective, share_gradients
from posemill.training.loop.timing import Clock
from posemill.training.models.keypoints import KeypointModel
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import Workload


class Stepper:
    """Takes optimizer steps; reads nothing back from the device unless asked to."""

    def __init__(
        self, workload: Workload, config: TrainConfig, *, runtime: Runtime, clock: Clock
    ) -> None:
        load_dynamo_late()
        self.workload, self.config = workload, config
        self.runtime, self.clock = runtime, clock
        device = runtime.device
        self.model: nn.Module = workload.model
        self.num_checkpointed = 0  # blocks that compute their activations twice
        if config.activation_checkpointing:
            self.num_checkpointed = checkpoint_blocks(self.model)
        if config.channels_last:
            put_channels_last(self.model)
        self._is_compiled = uses_compile(config, device)
        self._first_seconds: list[float] = []
        runner: Any = torch.compile(self.model) if self._is_compiled else self.model
        # Whose call returns the sum of the loss, and the number of samples.
        self._objective: Any = share_gradients(Objective(workload.task, runner, runtime), runtime)
        make = workload.make_optimizer or build_optimizer
        self.optimizer: Any = make(self.model, config, device)
        self.scaler = torch.amp.GradScaler(device.type, enabled=runtime.needs_scaler)
        self.average = WeightAverage(self.model, config.ema_decay) if config.ema_decay else None
        self.steps_taken = 0
        groups = self.optimizer.param_groups
        self._trained = [p for group in groups for p in group["params"] if p.requires_grad]
        # Loss sum and number of samples since the last read, over all processes.
        self._totals = torch.zeros(2, dtype=torch.float64, device=device)
        self._last = self._totals

    def take(self, batches: Iterator[Any], num_micro: int, lr: float | None) -> None:
        """Take one step over the next `num_micro` batches; no `lr` leaves it as it is."""
        clock, counts, started = self.clock, torch.zeros_like(self._totals), time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        for number in range(1, num_micro + 1):
            batch = next(batches)
            clock.lap("data")
            batch = batch.to(self.runtime.device, non_blocking=True)
            clock.lap("transfer")
            is_last = number == num_micro
            is_exchanged = is_last or self.runtime.size == 1
            with nullcontext() if is_exchanged else self._objective.no_sync():
                loss_sum, count = self._objective(batch)
                counts[0] += loss_sum.detach()
                counts[1] += count
                clock.lap("forward")
                if is_last:
                    wait_for_counts = self.runtime.start_sum(counts)
                # The processes' gradients are averaged, and the sum is wanted. Divided by the
                # usual size of a batch, to keep fp16 gradients in range.
                share = loss_sum * self.runtime.size / self.config.optimisation.batch_size
                self.scaler.scale(share).backward()
            clock.lap("backward")
        wait_for_counts()
        self._totals += counts
        self._last = counts
        self._update(counts[1], lr)
        clock.lap("optimizer")
        if len(self._first_seconds) < 2:
            self._first_seconds.append(time.perf_counter() - started)

    def _update(self, count: Tensor, lr: float | None) -> None:
        self.scaler.unscale_(self.optimizer)
        gradients = [p.grad for p in self._trained if p.grad is not None]
        factor = (self.config.batch_size / count.clamp_min(1e-12)).to(torch.float32)
        if self.config.clip_grad_norm:
            # As nn.utils.clip_grad_norm_, but with one pass over the gradients for both factors.
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)])
            norm = torch.linalg.vector_norm(norms) * factor
            factor = factor * (self.config.clip_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, factor)
        if lr is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = lr
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average:
            self.average.update(self.steps_taken)
        self.steps_taken += 1

    def state_dict(self) -> dict[str, Any]:
        """Return all that it remembers; no moving average is an empty one."""
        return {
            "kind": self._kind,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.shadow if self.average else {},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` returned."""
        if state["kind"] != self._kind:
            raise TrainingError(
                "the checkpoint was written by optimizer {saved}, this training has {present}; "
                "use the same {--optimizer} to continue, or another {--out}",
                saved=state["kind"],
                present=self._kind,
            )
        if self.average and not state["average"]:
            template = "the checkpoint has no moving average: continue with {--ema-decay:0}"
            raise TrainingError(template)
        self.optimizer.load_state_dict(state["optimizer"])
        # A user's own optimizer may remember what it likes.
        states = {} if self.workload.make_optimizer else self.optimizer.state
        for parameter, values in states.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape not in ((), parameter.shape):
                    raise ValueError(f"{name} of {self._kind} has shape {tuple(value.shape)}")
        self.scaler.load_state_dict(state["scaler"])
        if self.average:
            for name, shadow in self.average.shadow.items():
                shadow.copy_(state["average"][name])

    @property
    def _kind(self) -> str:
        return str(getattr(self.optimizer, "name", type(self.optimizer).__name__))

    @property
    def compile_seconds(self) -> float:
        """How much longer the first step took than the second, where the model is compiled."""
        if not self._is_compiled or not self._first_seconds:
            return 0.0
        first, *others = self._first_seconds
        return max(0.0, first - sum(others))

    def read_totals(self) -> tuple[float, int]:
        """Return (mean loss, samples) since the last call; waits for the device."""
        loss_sum, count = self._totals.tolist()
        self._totals.zero_()
        return (loss_sum / count if count else 0.0), round(count)

    def last_loss(self) -> float:
        """Return the mean loss of the last step; waits for the device."""
        loss_sum, count = self._last.tolist()
        return loss_sum / count if count else 0.0


def put_channels_last(model: nn.Module) -> None:
    """Lay out the weights of convolutions so that the channels of a place are side by side."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    for weights in model.parameters():
        if weights.ndim in formats:
            # Not `contiguous`, which leaves the strides of 1 x 1 kernels as they are: their
            # gradients have others, and processes that exchange them would copy each.
            laid_out = torch.empty_like(weights.data, memory_format=formats[weights.ndim])
            weights.data = laid_out.copy_(weights.data)


def uses_compile(config: TrainConfig, device: torch.device) -> bool:
    """Return True where the model is to be compiled: asked for, or a GPU and a fast preset."""
    if config.speed.compile == "auto":
        return device.type == "cuda" and config.preset in COMPILES_ON_GPU
    return config.speed.compile == "on"


def checkpoint_blocks(model: nn.Module) -> int:
    """Let the model's blocks compute their activations twice; return how many blocks there are.

    Our own models know their blocks. In any other one a block is a member of a `ModuleList`, or a
    member of a `Sequential` that has parts of its own. Blocks inside blocks are left alone.
    """
    if isinstance(model, KeypointModel):
        model.activation_checkpointing = True
        return sum(len(part) for part in model.modules() if isinstance(part, nn.ModuleList))
    blocks = list(_blocks_of(model))
    for block in blocks:
        block.forward = partial(_forward_twice, block)  # of a copied model: of the copied block
    return len(blocks)


def _blocks_of(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        is_list = isinstance(module, nn.ModuleList)
        is_stage = isinstance(module, nn.Sequential) and next(child.children(), None) is not None
        has_weights = next(child.parameters(), None) is not None
        if (is_list or is_stage) and has_weights and not isinstance(child, nn.ModuleList):
            yield child
        else:
            yield from _blocks_of(child)


def _forward_twice(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The forward of a block that computes its activations again in the backward pass."""
    plain = partial(type(block).forward, block)
    if not block.training:
        return plain(*args, **kwargs)

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), _frozen_statistics(block)  # of the first and the second computation

    return checkpoint(plain, *args, use_reentrant=False, context_fn=contexts, **kwargs)


@contextmanager
def _frozen_statistics(block: nn.Module) -> Iterator[None]:
    """The second computation must not move the running statistics of batch norm again."""
    norms = [part for part in block.modules() if isinstance(part, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def build_optimizer(
    model: nn.Module, config: TrainConfig, device: torch.device
) -> torch.optim.Optimizer:
    """Return the optimizer, without weight decay on biases and norms, fused where torch has it."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > 1]
    plain = [parameter for parameter in trained if parameter.ndim <= 1]  # biases, scales of norms
    groups = [
        {"params": parameters, "weight_decay": decay}
        for parameters, decay in ((decayed, config.weight_decay), (plain, 0.0))
        if parameters
    ]
    options: dict[str, Any] = {"lr": config.lr}
    if all(parameter.is_floating_point() for parameter in trained):
        options["fused"] = device.type in ("cpu", "cuda")
    if config.optimizer == "sgd":
        options |= {"momentum": config.momentum, "nesterov": config.momentum > 0}
        return torch.optim.SGD(groups, **options)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, **options)


class WeightAverage:
    """An exponential moving average of a model's trained weights.

    The decay is warmed up, min(decay, (1 + n) / (10 + n)), so that the random first weights are
    forgotten within the first epochs. `shadow` has the averages by the names of the weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.shadow = {name: live.detach().clone() for name, live in self._live.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the average towards the weights after optimizer step `step` (from 0)."""
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        live = [parameter.detach() for parameter in self._live.values()]
        torch._foreach_lerp_(list(self.shadow.values()), live, weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the model hold the average inside the block; the trained weights come back after."""
        trained = {name: live.data for name, live in self._live.items()}
        try:
            for name, live in self._live.items():
                live.data = self.shadow[name]
            yield
        finally:
            for name, live in self._live.items():
                live.data = trained[name]
