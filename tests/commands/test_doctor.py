import json
from dataclasses import asdict, replace

import pytest
from cli_runner import CliRunner

from posemill.commands.line import run_line
from posemill.inspection import doctor
from posemill.inspection.doctor import Diagnosis
from posemill.jobs.extract import plan

FOUND = Diagnosis(
    versions={"posemill": "1.2", "pyarrow": None},
    machine={
        "platform": "Linux", "processor": "Z80", "cores": 8, "usable_cores": 4,
        "cores_limited_by": "the quota", "memory_bytes": 16_000_000_000,
        "free_memory_bytes": 2_500_000_000, "usable_memory_bytes": 8_040_000_000,
        "memory_limited_by": "",
    },
    devices={"cpu": "litert", "cuda:0": "onnxruntime"},
    providers=[],
    gpus=["NVIDIA L4", "NVIDIA T4"],
    cache={
        "folder": "/cache", "writable": True, "free_bytes": 1_260_000_000,
        "models": {"a": "ready", "b": "missing", "c": "ready"},
    },
    extras={"train": [], "formats": ["h5py", "zarr"]},
)  # fmt: skip
LINES = """\
posemill       1.2
pyarrow        MISSING
platform       Linux
processor      Z80, 8 cores
usable cores   4 (the quota)
memory         16.0 GB, 2.5 GB free
usable memory  8.0 GB
devices        cpu (litert), cuda:0 (onnxruntime)
gpus           NVIDIA L4; NVIDIA T4
providers      none
extract        3 processes x 1 thread on cpu, unless told otherwise (as many as fit)
cache          /cache (writable, 1.3 GB free)
models         2 of 3 ready
[train]        ready
[formats]      missing h5py, zarr; run: pip install 'posemill[formats]'
"""


def nothing_tried(monkeypatch):
    """Spare the processes that try libraries: these tests are about what is printed."""
    monkeypatch.setattr(doctor, "try_libraries", dict)
    monkeypatch.setattr("posemill.commands.machine.find_spec", lambda _: None)


def doctor_says(monkeypatch, found, *flags, colours=False):
    nothing_tried(monkeypatch)
    monkeypatch.setattr(doctor, "diagnose", lambda address, tried: found)
    monkeypatch.setattr(plan, "usual_workers", lambda: (3, "as many as fit"))
    return CliRunner().invoke(run_line, ["doctor", *flags], color=colours)


def test_every_fact_has_its_line_and_json_is_all_of_it(monkeypatch):
    result = doctor_says(monkeypatch, FOUND)
    assert result.stdout == f"{LINES}all well\n"
    assert result.exit_code == 0
    result = doctor_says(monkeypatch, replace(FOUND, problems=["no disk"]), "--json")
    assert json.loads(result.stdout) == asdict(replace(FOUND, problems=["no disk"]))
    assert result.exit_code == 1
    about = {"address": "auto", "machines": 2, "cpus": 8.0, "free_cpus": 7.5, "gpus": 1.0,
             "free_gpus": 0.0}  # fmt: skip
    shown = doctor_says(monkeypatch, replace(FOUND, cluster=about)).stdout
    assert "ray cluster    auto: 2 machines, 8 CPUs (7.5 free), 1 GPUs (0 free)" in shown


def test_problems_are_exit_code_1_and_warnings_are_not(monkeypatch):
    found = replace(FOUND, gpus=[], cache={**FOUND.cache, "writable": False}, problems=["no disk"])
    result = doctor_says(monkeypatch, replace(found, warnings=["slow"]))
    assert result.exit_code == 1
    assert "gpus           none found\n" in result.stdout
    assert "cache          /cache (NOT writable, 1.3 GB free)\n" in result.stdout
    assert result.stdout.endswith("\nproblem: no disk\nwarning: slow\n")
    result = doctor_says(monkeypatch, replace(FOUND, warnings=["slow"]))
    assert result.stdout == f"{LINES}warning: slow\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problems": ["no disk"]}, "\x1b[31mproblem: no disk"),
        ({"warnings": ["slow"]}, "\x1b[33mwarning: slow"),
        ({}, "\x1b[32mall well"),
    ],
)
def test_on_a_terminal_the_outcome_has_its_colour(changes, words, monkeypatch):
    assert words in doctor_says(monkeypatch, replace(FOUND, **changes), colours=True).stdout


def test_a_ray_cluster_that_does_not_answer_is_a_problem(monkeypatch):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    nothing_tried(monkeypatch)
    done = CliRunner().invoke(run_line, ["doctor", "--ray-address", "127.0.0.1:9", "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["cluster"] is None
    assert "no Ray cluster could be used at 127.0.0.1:9: [Errno" in found["problems"][0]
