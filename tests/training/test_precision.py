from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest
import torch

from posemill.errors import ConfigError, DeviceError
from posemill.training import precision
from posemill.training.precision import Precision, as_float, choose_device, choose_precision

CPU = torch.device("cpu")


def test_the_probe_of_the_cpu_asks_torch(monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    assert not precision.cpu_has_fast_bf16()
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert precision.cpu_has_fast_bf16()


@pytest.mark.parametrize("fast", [True, False])
def test_what_is_asked_for_on_a_cpu_is_given(fast, monkeypatch):
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: fast)
    assert choose_precision("fp32", CPU) == Precision("fp32", "asked for")
    asked = choose_precision("bf16", CPU)
    assert (asked.name, asked.is_slow) == ("bf16", not fast)
    assert ("asked for, although this CPU has neither AVX512" in asked.reason) is not fast


@pytest.mark.parametrize(
    ("requested", "has_bf16", "expected"),
    [("auto", True, "bf16"), ("auto", False, "fp16"), ("fp32", False, "fp32"),
     ("mixed", True, "fp16"), ("bf16", False, "bf16"), ("bf16", True, "bf16")],
)  # fmt: skip
def test_a_gpu_gets_bf16_where_it_has_it_else_fp16(requested, has_bf16, expected, monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16 or including_emulation
    )
    chosen = choose_precision(requested, torch.device("cuda"))
    assert chosen.name == expected
    assert chosen.is_slow == (requested == "bf16" and not has_bf16)
    is_plain = requested == "fp32" or (requested == "bf16" and has_bf16)
    assert (chosen.reason == "asked for") is is_plain


def test_gpus_are_chosen_by_their_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceError, match="there are 2 GPUs: cuda:0 to cuda:1"):
        choose_device("cuda:2")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("auto") == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert (choose_device("cuda"), choose_device("cpu")) == (torch.device("cuda"), CPU)


@pytest.mark.parametrize(
    ("built", "said"), [("12.4", "12.4"), (None, "none .this torch is built for the CPU only.")]
)
def test_a_gpu_that_is_not_there_is_an_error_with_the_cuda_of_torch(built, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built)
    said = rf"torch sees no GPU; CUDA of torch .*{said}\. Use device=.cpu., or install a CUDA build"
    with pytest.raises(DeviceError, match=said):
        choose_device("cuda")
    assert choose_device("auto") == CPU


@pytest.mark.parametrize("name", ["gpu", "mps", "tpu:0"])
def test_other_devices_are_refused(name):
    with pytest.raises(ConfigError, match="device: expected auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_outputs_in_half_precision_become_fp32():
    @dataclasses.dataclass
    class Output:
        logits: torch.Tensor
        name: str

    class Pair(NamedTuple):
        one: torch.Tensor
        two: torch.Tensor

    half = torch.ones(2, dtype=torch.bfloat16)
    assert as_float(half).dtype == torch.float32
    assert as_float(Output(half, "x")).logits.dtype == torch.float32
    assert as_float({"a": [half]})["a"][0].dtype == torch.float32
    assert as_float(Pair(half, half)).two.dtype == torch.float32
    assert as_float(torch.ones(2, dtype=torch.int64)).dtype == torch.int64
    assert as_float(torch.ones(2, dtype=torch.float16)).dtype == torch.float32
    assert as_float(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    assert (as_float("text"), as_float(Output)) == ("text", Output)
    assert as_float((half, "text"))[1] == "text"
