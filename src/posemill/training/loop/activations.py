"""Activation checkpointing for any model that is made of repeated blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from posemill.training.models.keypoints.base import KeypointModel


def checkpoint_blocks(model: nn.Module) -> int:
    """Let the model's blocks compute their activations twice; return how many blocks there are.

    Our own models know their blocks. In any other one a block is a member of a `ModuleList`, or a
    member of a `Sequential` that has parts of its own.
    Blocks inside blocks are left alone.
    """
    if isinstance(model, KeypointModel):
        model.activation_checkpointing = True
        return sum(len(part) for part in model.modules() if isinstance(part, nn.ModuleList))
    blocks: list[nn.Module] = []
    _collect(model, blocks)
    for block in blocks:
        block.forward = partial(_forward_twice, block)  # of a copied model: of the copied block
    return len(blocks)


def _collect(module: nn.Module, blocks: list[nn.Module]) -> None:
    for child in module.children():
        is_list = isinstance(module, nn.ModuleList)
        is_stage = isinstance(module, nn.Sequential) and next(child.children(), None) is not None
        has_weights = next(child.parameters(), None) is not None
        if (is_list or is_stage) and has_weights and not isinstance(child, nn.ModuleList):
            blocks.append(child)
        else:
            _collect(child, blocks)


def _forward_twice(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The forward of a block that computes its activations again in the backward pass."""
    plain = partial(type(block).forward, block)
    if not block.training:
        return plain(*args, **kwargs)
    return checkpoint(
        plain, *args, use_reentrant=False, context_fn=lambda: _contexts(block), **kwargs
    )


def _contexts(block: nn.Module) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """The contexts of the first and of the second computation."""
    return nullcontext(), _frozen_statistics(block)


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
