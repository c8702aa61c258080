"""Which device and which number format a training uses, and why."""

from __future__ import annotations

import dataclasses
import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posemill.errors import ConfigError, DeviceError
from posemill.messages import Message
from posemill.training.bf16 import amx_off_if_needed, try_bf16


@dataclass(frozen=True)
class Precision:
    """A number format of the forward pass, and why; `is_slow` where the hardware emulates it."""

    name: str
    reason: str
    is_slow: bool = False

    def describe(self) -> Message:
        """Return it in a sentence."""
        return Message("precision {name}: {reason}", **vars(self))


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is the first GPU, or the CPU where there is none."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if num_gpus else "cpu")
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise ConfigError("{--device}: expected auto, cpu, cuda or cuda:N, got {name!r}", name=name)
    device = torch.device(name)
    if device.type == "cuda" and not num_gpus:
        raise DeviceError(
            "{--device:{name}}, but torch sees no GPU; CUDA of torch {version}: {cuda}. Use "
            "{--device:cpu}, or install a CUDA build of torch",
            name=name,
            version=torch.__version__,
            cuda=torch.version.cuda or Message("none (this torch is built for the CPU only)"),
        )
    if device.type == "cuda" and (device.index or 0) >= num_gpus:
        template = "{--device:{name}}, but there are {num_gpus} GPUs: cuda:0 to cuda:{last}"
        raise DeviceError(template, name=name, num_gpus=num_gpus, last=num_gpus - 1)
    return device


def cpu_has_fast_bf16() -> bool:
    """Return True where the CPU multiplies bf16 itself (AVX512-BF16 or AMX)."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)


def choose_precision(requested: str, device: torch.device) -> Precision:
    """Return the format to use.

    `auto` on a GPU: bf16 where the GPU has it, else fp16. On a CPU: bf16 where the CPU has
    instructions for it that were tried and work, else fp32, as emulated bf16 is more than ten
    times slower. `mixed` (`use_fp16`) is the same on a CPU, and fp16 on a GPU.
    """
    if device.type == "cuda":
        return _choose_on_gpu(requested, torch.cuda.is_bf16_supported(including_emulation=False))
    if requested == "fp32":
        return Precision("fp32", Message("asked for"))
    fast = cpu_has_fast_bf16()
    missing = Message(
        "this CPU has neither AVX512-BF16 nor AMX: bf16 would be emulated, 10 times slower"
    )
    if requested == "fp16":
        raise ConfigError("{--precision:fp16} needs a GPU; on a CPU use auto, mixed, fp32 or bf16")
    if requested != "bf16" and not fast:
        return Precision("fp32", missing)
    trial = try_bf16()
    if trial.works:
        reasons = {
            "auto": Message("this CPU has bf16 instructions"),
            "mixed": Message("mixed, which is bf16 on a CPU that computes it; fp16 is for GPUs"),
            "bf16": Message("asked for"),
        }
        if not fast:
            reasons["bf16"] = Message("asked for, although {missing}", missing=missing)
        return Precision("bf16", trial.describe() or reasons[requested], is_slow=not fast)
    if requested == "bf16":
        template = "{--precision:bf16} cannot be used: {reason}. Use {--precision:auto} or fp32"
        raise DeviceError(template, reason=trial.describe())
    return Precision("fp32", trial.describe())


def precision_of_run(name: str, device: torch.device, reason: str) -> Precision:
    """Return the format that a run was trained in, or fp32 where bf16 does not work here."""
    if name == "bf16" and device.type == "cpu" and not try_bf16().works:
        template = "the run was trained in bf16; {reason}"
        return Precision("fp32", Message(template, reason=try_bf16().describe()))
    return Precision(name, reason)


def bf16_made_ready(requested: str, device: torch.device) -> AbstractContextManager[None]:
    """Return the block in which bf16 works, if it may be chosen and this machine can at all.

    It has to begin before torch computes anything; see `amx_off_if_needed`.
    """
    may_use_bf16 = requested == "bf16" or (requested != "fp32" and cpu_has_fast_bf16())
    return amx_off_if_needed() if device.type == "cpu" and may_use_bf16 else nullcontext()


def _choose_on_gpu(requested: str, has_bf16: bool) -> Precision:
    if requested == "auto" and has_bf16:
        return Precision("bf16", Message("this GPU has bf16, which needs no loss scaling"))
    if requested == "auto":
        return Precision("fp16", Message("this GPU has no bf16; the loss is scaled"))
    if requested == "bf16" and not has_bf16:
        return Precision("bf16", Message("asked for, although this GPU emulates it"), is_slow=True)
    if requested == "mixed":
        return Precision("fp16", Message("mixed, which is fp16 on a GPU; the loss is scaled"))
    return Precision(requested, Message("asked for"))


def as_float(output: Any) -> Any:
    """Return the output with half-precision tensors in fp32: losses are computed in fp32."""
    if isinstance(output, Tensor):
        return output.float() if output.dtype in (torch.bfloat16, torch.float16) else output
    if isinstance(output, (tuple, list)):
        make = getattr(output, "_make", type(output))
        return make([as_float(part) for part in output])
    if isinstance(output, dict):
        return {name: as_float(part) for name, part in output.items()}
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        names = [field.name for field in dataclasses.fields(output)]
        parts = {name: as_float(getattr(output, name)) for name in names}
        return dataclasses.replace(output, **parts)
    return output
