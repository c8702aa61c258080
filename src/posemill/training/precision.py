"""Which device and which number format a training uses, and why."""

from __future__ import annotations

import dataclasses
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
    """A number format of the forward pass.

    Args:
        name: `fp32`, `bf16` or `fp16`.
        reason: Why this one, for the user to read.
        is_slow: True where the hardware has to emulate it.
    """

    name: str
    reason: str
    is_slow: bool = False

    def describe(self) -> Message:
        """Return it in a sentence."""
        return Message("precision {name}: {reason}", name=self.name, reason=self.reason)


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is the first GPU, or the CPU where there is none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            "{--device}: expected auto, cpu, cuda or cuda:N, got {name!r}", name=name
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError("{--device}: expected auto, cpu, cuda or cuda:N, got {name!r}", name=name)
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not found:
            built = torch.version.cuda or Message("none (this torch is built for the CPU only)")
            raise DeviceError(
                "{--device:{name}}, but torch sees no GPU; CUDA of torch {version}: {cuda}. Use "
                "{--device:cpu}, or install a CUDA build of torch",
                name=name,
                version=torch.__version__,
                cuda=built,
            )
        if (device.index or 0) >= found:
            raise DeviceError(
                "{--device:{name}}, but there are {num_gpus} GPUs: cuda:0 to cuda:{last}",
                name=name,
                num_gpus=found,
                last=found - 1,
            )
    return device


def cpu_has_fast_bf16() -> bool:
    """Return True where the CPU multiplies bf16 itself (AVX512-BF16 or AMX)."""
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)


def choose_precision(requested: str, device: torch.device) -> Precision:
    """Return the format to use.

    `auto` on a GPU: bf16 where the GPU has it, else fp16. On a CPU: bf16 where the CPU has
    instructions for it that were tried and work, else fp32, as emulated bf16 is more than ten
    times slower. `mixed`
    (`use_fp16`) is the same on a CPU, and fp16 on a GPU.
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
            "bf16": Message("asked for")
            if fast
            else Message("asked for, although {missing}", missing=missing),
        }
        return Precision("bf16", trial.describe() or reasons[requested], is_slow=not fast)
    if requested == "bf16":
        raise DeviceError(
            "{--precision:bf16} cannot be used: {reason}. Use {--precision:auto} or fp32",
            reason=trial.describe(),
        )
    return Precision("fp32", trial.describe())


def precision_of_run(name: str, device: torch.device, reason: str) -> Precision:
    """Return the format that a run was trained in, or fp32 where bf16 does not work here."""
    if name == "bf16" and device.type == "cpu" and not try_bf16().works:
        return Precision(
            "fp32",
            Message("the run was trained in bf16; {reason}", reason=try_bf16().describe()),
        )
    return Precision(name, reason)


def bf16_made_ready(requested: str, device: torch.device) -> AbstractContextManager[None]:
    """Return the block in which bf16 works, if it may be chosen and this machine can at all.

    It has to begin before torch computes anything; see `amx_off_if_needed`.
    """
    may_use_bf16 = requested == "bf16" or (requested != "fp32" and cpu_has_fast_bf16())
    is_on_cpu = device.type == "cpu"
    return amx_off_if_needed() if is_on_cpu and may_use_bf16 else nullcontext()


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
