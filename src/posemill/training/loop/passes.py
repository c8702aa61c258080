"""Batches through model and task: for gradients over several processes, and for scores.

torch's DistributedDataParallel around model and loss sums each bucket of gradients while the
backward pass still computes the next one.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from posemill.training.data.clips import Loader
from posemill.training.precision import as_float
from posemill.training.runtime import Runtime
from posemill.training.tasks.task import Row, Task
from posemill.training.tasks.workload import Workload

# Running statistics stay each process's own until `Runtime.average_buffers`; torch 2.13 has a new
# word for it.
_OWN_BUFFERS: dict[str, Any] = {
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers": False
}


def call_model(task: Task, model: nn.Module, batch: Any, runtime: Runtime) -> Any:
    """Return what a model says of a batch, computed in the format of the process, as fp32."""
    with runtime.autocast():
        output = task.call(model, batch)
    return as_float(output)


class Objective(nn.Module):
    """The loss of a batch: model and loss as one module.

    Among several processes it depends on every weight, by nothing where the model leaves one out:
    each process waits for the gradient of each weight. A head that the loss does not use, or a
    branch that only some batches take, would be waited for in vain; `find_unused_parameters`
    helps too, but walks the graph in every step and warns where all weights are used.
    """

    def __init__(self, task: Task, model: nn.Module, runtime: Runtime) -> None:
        super().__init__()
        self.model = model
        self._task, self._runtime = task, runtime
        self._trained = [p for p in model.parameters() if p.requires_grad]

    def forward(self, batch: Any) -> tuple[Tensor, Tensor | float]:
        """Return `(sum of the loss over samples, number of samples)`."""
        output = call_model(self._task, self.model, batch, self._runtime)
        loss, count = self._task.loss(output, batch)
        if self._runtime.size > 1:
            loss = _DependOn.apply(loss, *self._trained)  # type: ignore[no-untyped-call]
        return loss, count


def share_gradients(objective: Objective, runtime: Runtime) -> nn.Module:
    """Return the objective with gradients that are the mean over the processes, as it is if alone.

    The weights of all processes become those of the first.
    """
    if runtime.size == 1:
        return objective
    return DistributedDataParallel(objective, gradient_as_bucket_view=True, **_OWN_BUFFERS)


class _DependOn(torch.autograd.Function):
    """The loss itself; in the backward pass the weights hear of it, with no gradient."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *weights: Tensor) -> Tensor:
        ctx.num_weights = len(weights)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (*gradients, *[None] * ctx.num_weights)


@dataclass(frozen=True)
class Evaluation:
    """Scores of a split, with `loss` unless no sample has one, and its rows sorted by index."""

    scores: dict[str, float]
    rows: list[Row]


@torch.no_grad()
def evaluate_split(workload: Workload, loader: Loader, runtime: Runtime) -> Evaluation:
    """Return the scores of a split with the model's weights as they are."""
    model, task = workload.model, workload.task
    rows: list[Row] = []
    loss_sum, count = 0.0, 0.0
    was_training = model.training
    model.eval()
    for batch in loader.batches():
        moved = batch.to(runtime.device, non_blocking=True)
        output = call_model(task, model, moved, runtime)
        one_loss, one_count = task.loss(output, moved)
        loss_sum += float(one_loss)
        count += float(one_count)
        rows += task.observe(output, moved)
    model.train(was_training)
    loss_sum, count = runtime.sum([loss_sum, count])
    rows = sorted((row for part in runtime.gather(rows) for row in part), key=attrgetter("sample"))
    scores = {"loss": loss_sum / count} if count else {}  # no clip that a loss can be told of
    return Evaluation(scores | task.score(rows), rows)
