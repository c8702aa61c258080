from __future__ import annotations

import dataclasses
from typing import NamedTuple

import pytest
import torch

from posemill.errors import ConfigError, DeviceError
from posemill.training.loop import precision
from posemill.training.loop.precision import as_float, choose_device, choose_precision

CPU = torch.device("cpu")


@pytest.fixture
def slow_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: False)


@pytest.mark.usefixtures("slow_cpu")
def test_a_cpu_without_bf16_instructions_gets_fp32_and_the_reason() -> None:
    chosen = choose_precision("auto", CPU)
    assert chosen.name == "fp32"
    assert "neither AVX512-BF16 nor AMX" in chosen.reason
    asked = choose_precision("bf16", CPU)
    assert asked.is_slow
    assert "asked for, although this CPU has neither" in asked.reason


def test_a_cpu_with_bf16_instructions_gets_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_has_fast_bf16", lambda: True)
    chosen = choose_precision("auto", CPU)
    assert (chosen.name, chosen.is_slow, chosen.needs_scaler) == ("bf16", False, False)
    with chosen.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_the_probe_of_the_cpu_asks_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    assert not precision.cpu_has_fast_bf16()
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert precision.cpu_has_fast_bf16()


def test_fp16_on_a_cpu_is_refused() -> None:
    with pytest.raises(ConfigError, match="precision = 'fp16' needs a GPU"):
        choose_precision("fp16", CPU)


@pytest.mark.parametrize(
    ("requested", "has_bf16", "expected"),
    [("auto", True, "bf16"), ("auto", False, "fp16"), ("fp32", True, "fp32"),
     ("bf16", False, "bf16")],
)  # fmt: skip
def test_a_gpu_gets_bf16_where_it_has_it_else_fp16_with_a_scaler(
    requested: str, has_bf16: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bf16)
    chosen = choose_precision(requested, torch.device("cuda"))
    assert chosen.name == expected
    assert chosen.needs_scaler == (expected == "fp16")
    assert chosen.is_slow == (requested == "bf16")


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="torch sees no GPU"):
        choose_device("cuda")
    assert choose_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceError, match="there are 2 GPUs: cuda:0 to cuda:1"):
        choose_device("cuda:5")
    assert choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["gpu", "mps", "tpu:0"])
def test_other_devices_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device: expected auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_outputs_in_half_precision_become_fp32() -> None:
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
