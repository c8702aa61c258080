"""Keeps torch._dynamo unloaded until something compiles: loading it takes as long as torch itself.

torch.optim, DistributedDataParallel and torch.utils.checkpoint load it in every training, only to
say that the compiler must not trace them. Those few questions are answered here without it;
whatever else is asked of `torch._dynamo` loads the real module and comes from there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

_NAME = "torch._dynamo"


class _Lazy(ModuleType):
    """Stands for a module until more is asked of it than the given answers."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(answers)

    def __getattr__(self, name: str) -> Any:
        # Whoever walks through all modules asks for such names; a submodule's import for the path.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _load()
        return getattr(importlib.import_module(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        _load()
        setattr(importlib.import_module(self.__name__), name, value)


def _load() -> None:
    """Load the real module, unless that is done or under way."""
    if isinstance(sys.modules.get(_NAME), _Lazy):
        del sys.modules[_NAME]
        importlib.import_module(_NAME)  # which is torch's attribute from then on


def _disable(
    function: Callable[..., Any] | None = None, *options: Any, **named: Any
) -> Callable[..., Any]:
    """Return the function; once the compiler is loaded, as the compiler disables it."""
    if function is None:  # a decorator with options, which torch itself does not use
        return lambda decorated: _disable(decorated, *options, **named)

    def call(*arguments: Any, **keywords: Any) -> Any:
        module = sys.modules[_NAME]
        if isinstance(module, _Lazy):
            return function(*arguments, **keywords)
        return module.disable(function, *options, **named)(*arguments, **keywords)

    return call


def load_dynamo_late() -> None:
    """Let `torch._dynamo` load at its first real use; does nothing where it is loaded."""
    if _NAME in sys.modules:
        return
    answers = {
        "disable": _disable,
        "graph_break": lambda *_, **__: None,  # nothing is traced that could be cut
        # Used inside of a trace only.
        "config": _Lazy(f"{_NAME}.config", {"error_on_nested_fx_trace": True}),
        "utils": _Lazy(f"{_NAME}.utils", {"get_optimize_ddp_mode": lambda: "ddp_optimizer"}),
        "trace_rules": _Lazy(f"{_NAME}.trace_rules", {"clear_lru_cache": lambda: None}),
    }
    sys.modules[_NAME] = _Lazy(_NAME, answers)
    setattr(torch, "_dynamo", sys.modules[_NAME])  # noqa: B010  a type checker knows the real one
