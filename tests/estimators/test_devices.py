"""The GPUs and providers of a machine, as the driver and ONNX Runtime tell them."""

from __future__ import annotations

from pathlib import Path

import pytest

from posemill.estimators.devices import list_gpus, list_providers


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The driver's tool, the only program on the path; a test writes it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    tool = tmp_path / "nvidia-smi"
    tool.touch(mode=0o755)
    return tool


def test_the_gpus_are_those_the_driver_lists(driver: Path) -> None:
    driver.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034 MiB'\necho 'NVIDIA T4, 15360 MiB'\n")
    assert list_gpus() == ["NVIDIA L4, 23034 MiB", "NVIDIA T4, 15360 MiB"]


def test_a_driver_that_fails_has_no_gpus(driver: Path) -> None:
    driver.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert list_gpus() == []


def test_a_machine_without_a_driver_has_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list_gpus() == []


def test_the_cpu_is_always_a_provider() -> None:
    assert "CPUExecutionProvider" in list_providers()
