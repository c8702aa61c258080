"""GPUs as NVIDIA's library tells of them; a small stand-in for it, as there is none here."""

import sys
from types import SimpleNamespace

import pytest

from posemill.machine.gpus import Gpu, place_workers, read_gpus, with_workers

GB = 1 << 30


class NVMLError(Exception):
    pass


@pytest.fixture
def library(monkeypatch):
    """Two GPUs; the second does not tell how busy it is."""

    def rates(device):
        if device == 1:
            raise NVMLError("not supported")
        return SimpleNamespace(gpu=87)

    calls = []
    module = SimpleNamespace(
        calls=calls,
        NVMLError=NVMLError,
        nvmlInit=lambda: calls.append("init"),
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda device: ["NVIDIA A100", "Tesla T4"][device],
        nvmlDeviceGetUUID=lambda device: ["GPU-aaaa-1", "GPU-bbbb-2"][device],
        nvmlDeviceGetUtilizationRates=rates,
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=4 * GB, total=40 * GB),
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_every_gpu_is_told_with_its_use_and_memory(library):
    first, second = read_gpus()
    assert first == Gpu(0, "NVIDIA A100", "GPU-aaaa-1", 0.87, 4 * GB, 40 * GB)
    assert (second.name, second.busy_share) == ("Tesla T4", None)
    assert first.describe() == "GPU 0 NVIDIA A100: 87% busy, 4.0 of 40.0 GB"
    assert second.describe() == "GPU 1 Tesla T4: 4.0 of 40.0 GB"
    assert library.calls == ["init", "shutdown"]


def test_where_nobody_answers_nothing_is_told(library, monkeypatch):
    def refuse(*_):
        raise NVMLError("driver not loaded")

    monkeypatch.setattr(library, "nvmlDeviceGetCount", refuse)
    assert read_gpus() == []
    assert library.calls == ["init", "shutdown"]
    monkeypatch.setattr(library, "nvmlInit", refuse)
    assert read_gpus() == []
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_gpus() == []


@pytest.mark.parametrize(
    ("visible", "placed"),
    [
        (None, {"0": [0, 2], "1": [1, 3]}),
        ("1, 0", {"1": [0, 2], "0": [1, 3]}),
        ("GPU-bbbb,GPU-aaaa", {"GPU-bbbb": [0, 2], "GPU-aaaa": [1, 3]}),
    ],
)
def test_workers_are_found_on_the_gpus_that_cuda_may_see(library, monkeypatch, visible, placed):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = place_workers(["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cpu"])
    assert found == placed
    by_gpu = {gpu.index: gpu.workers for gpu in with_workers(found)}
    assert by_gpu == ({0: (0, 2), 1: (1, 3)} if visible is None else {0: (1, 3), 1: (0, 2)})
    assert "40.0 GB, workers " in with_workers(found)[0].describe()


def test_on_a_cpu_or_by_a_strangers_note_no_gpu_is_shown(library):
    assert place_workers(["cpu", "cpu"]) == {}
    for placed in ({}, None, 3, ["0"]):
        assert with_workers(placed) == []
    for placed in ({"0": 3}, {"": [0]}, {"GPU-": [0]}, {"0": ["x", None]}):
        assert [gpu.workers for gpu in with_workers(placed)] == [(), ()]
