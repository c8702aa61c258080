"""Batch norm whose statistics are of a fixed number of clips, however large the batch is.

Multigrid's batches are up to sixteen times the usual. A large one is normalised in groups of the
usual size, with one shared scale and shift; where a process has fewer clips than that, it shares
statistics with others. The layers keep their names and their state: a checkpoint is that of plain
batch norm, and `restore_norms` leaves the model as it was built.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.modules.batchnorm import _BatchNorm

from posemill.training.runtime import Runtime

NORM_CLIPS = 8


class _Grouped(_BatchNorm):
    """What a batch norm becomes: statistics of parts of a batch, or of several processes."""

    num_groups: int
    peers: Any  # the processes that share statistics; None: each has its own
    group_means: Tensor  # (groups, C)
    group_vars: Tensor

    def forward(self, batch: Tensor) -> Tensor:
        if not self.training:
            return super().forward(batch)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.peers is not None:
            return _norm_with_peers(self, batch)
        # The last, smaller batch of an epoch may not divide: fewer groups of one size then.
        groups = next(g for g in range(self.num_groups, 0, -1) if len(batch) % g == 0)
        statistics = zip(batch.chunk(groups), self.group_means, self.group_vars, strict=False)
        parts = [
            nn.functional.batch_norm(
                part, mean, var, self.weight, self.bias, True, _momentum(self), self.eps
            )
            for part, mean, var in statistics
        ]
        return parts[0] if groups == 1 else torch.cat(parts)


_GROUPED: dict[type[Any], type[Any]] = {
    plain: type(f"Grouped{plain.__name__}", (_Grouped, plain), {})
    for plain in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}
_PLAIN = {grouped: plain for plain, grouped in _GROUPED.items()}


def has_norms(model: nn.Module) -> bool:
    """Return whether a model has batch norm with running statistics."""
    return any(True for _ in _norms(model, _GROUPED))


def count_groups(num_clips: int) -> int:
    """Return how many groups a pass of so many clips is normalised in."""
    return max(1, num_clips // NORM_CLIPS)


def group_norms(model: nn.Module, num_clips: int, runtime: Runtime) -> None:
    """Let every batch norm take its statistics from `NORM_CLIPS` clips; its state stays plain.

    `num_clips` are those of a forward pass of this process. Where they are fewer, neighbours among
    the processes share statistics; all of them call this.
    """
    restore_norms(model)
    groups = count_groups(num_clips)
    peers = _neighbours(runtime, -(-NORM_CLIPS // num_clips)) if num_clips < NORM_CLIPS else None
    if groups == 1 and peers is None:
        return
    for _, layer in _norms(model, _GROUPED):
        layer.__class__ = _GROUPED[type(layer)]
        layer.num_groups, layer.peers = groups, peers
        for name, plain in (("means", layer.running_mean), ("vars", layer.running_var)):
            several = plain.detach().clone().expand(groups, -1).contiguous()
            layer.register_buffer(f"group_{name}", several, persistent=False)


def _neighbours(runtime: Runtime, wanted: int) -> Any:
    """The processes that share statistics with this one; None where it is alone."""
    size = min(wanted, runtime.size)
    if size < 2:
        return None
    starts = range(0, runtime.size, size)
    groups = [list(range(start, min(start + size, runtime.size))) for start in starts]
    own, _ = dist.new_subgroups_by_enumeration(groups)  # type: ignore[no-untyped-call]
    return own if len(groups[runtime.rank // size]) > 1 else None


@torch.no_grad()
def aggregate_norms(model: nn.Module) -> None:
    """Put the statistics of all groups into those that evaluation uses and checkpoints hold."""
    for _, layer in _norms(model, _PLAIN):
        means, variances = layer.group_means, layer.group_vars
        layer.running_mean.copy_(means.mean(0))
        layer.running_var.copy_(variances.mean(0) + means.var(0, unbiased=False))


def restore_norms(model: nn.Module) -> None:
    """Make all batch norms plain again, with the statistics of all groups."""
    aggregate_norms(model)
    for _, layer in _norms(model, _PLAIN):
        layer.__class__ = _PLAIN[type(layer)]
        del layer.num_groups, layer.peers, layer.group_means, layer.group_vars


def read_norm_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the statistics of the groups by name, for a checkpoint."""
    return {
        f"norm.{name}.{part}": getattr(layer, part)
        for name, layer in _norms(model, _PLAIN)
        for part in ("group_means", "group_vars")
    }


@torch.no_grad()
def set_norm_state(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put what `read_norm_state` gave back into layers that are grouped the same way."""
    for name, buffer in read_norm_state(model).items():
        if name in tensors:
            buffer.copy_(tensors[name])


def _norms(model: nn.Module, kinds: Container[type]) -> Iterator[tuple[str, Any]]:
    for name, layer in model.named_modules():
        if type(layer) in kinds and layer.track_running_stats:
            yield name, layer


def _momentum(layer: Any) -> float:
    return 0.1 if layer.momentum is None else float(layer.momentum)


def _norm_with_peers(layer: Any, batch: Tensor) -> Tensor:
    """Normalise by the mean and variance over the batches of several processes."""
    others = [axis for axis in range(batch.ndim) if axis != 1]
    wide = batch.float()
    count = wide.new_tensor([batch.numel() / batch.shape[1]])
    sums = torch.cat([wide.sum(others), wide.square().sum(others), count])
    sums = all_reduce(sums, group=layer.peers)  # type: ignore[no-untyped-call]
    total = sums[-1]
    mean = sums[: layer.num_features] / total
    var = sums[layer.num_features : -1] / total - mean.square()
    with torch.no_grad():
        layer.group_means[0].lerp_(mean, _momentum(layer))
        layer.group_vars[0].lerp_(var * total / (total - 1), _momentum(layer))
    shape = [1, -1, *[1] * (batch.ndim - 2)]
    result: Tensor = (wide - mean.view(shape)) * (var.view(shape) + layer.eps).rsqrt()
    if layer.affine:
        result = result * layer.weight.view(shape) + layer.bias.view(shape)
    return result.to(batch.dtype)
