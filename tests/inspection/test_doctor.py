import os
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import pytest
from cli_runner import CliRunner

from posemill import __version__
from posemill.commands.line import run_line
from posemill.estimators.trial import try_library
from posemill.inspection import doctor
from posemill.inspection.doctor import diagnose, try_libraries
from posemill.jobs.extract import plan
from posemill.machine import trials
from posemill.machine.limits import Limit
from posemill.machine.trials import Outcome


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(trials, "cache_folder", lambda: tmp_path / "tried")
    # Trying takes processes.
    monkeypatch.setattr(doctor, "LIBRARIES", {})
    monkeypatch.setattr("posemill.training.bf16.try_bf16", lambda: None)


def pretend_versions(monkeypatch, **versions):
    """Make packages (dashes as underscores) look as if installed in other versions, or not."""
    real = metadata.version

    def version(name):
        key = name.replace("-", "_")
        if key not in versions:
            return real(name)
        if versions[key] is None:
            raise metadata.PackageNotFoundError(name)
        return str(versions[key])

    monkeypatch.setattr(metadata, "version", version)


def test_versions_cores_memory_devices_and_cache_are_those_of_this_machine(tmp_path):
    found = diagnose()
    assert found.versions["posemill"] == __version__
    assert found.versions["numpy"] == np.__version__
    assert 1 <= found.machine["usable_cores"] <= found.machine["cores"]
    assert 0 < found.machine["free_memory_bytes"] <= found.machine["usable_memory_bytes"]
    assert found.machine["usable_memory_bytes"] <= found.machine["memory_bytes"]
    assert found.devices["cpu"] == "litert"
    assert "CPUExecutionProvider" in found.providers
    assert found.cache["folder"] == str(tmp_path / "cache")
    assert found.cache["writable"]
    assert set(found.cache["models"].values()) == {"missing"}
    assert found.problems == []
    (warning,) = (each for each in found.warnings if "not in the cache yet" in each)
    assert warning.startswith("6 of 6 models")
    assert "posemill models pull" in warning
    assert not (tmp_path / "cache").exists(), "looking changes nothing"


def test_the_limits_of_a_container_are_shown_with_what_sets_them(monkeypatch):
    quota = Limit(3, "/sys/fs/cgroup/cpu.max allows the time of 2.5")
    memory = Limit(4 << 30, "/sys/fs/cgroup/memory.max allows no more")
    for name, limit in (("core_limit", quota), ("memory_limit", memory)):
        monkeypatch.setattr(doctor, name, lambda limit=limit: limit)
    monkeypatch.setattr(plan, "count_cores", lambda: 64)
    monkeypatch.setattr(plan, "memory_limit", lambda: memory)
    lines = CliRunner().invoke(run_line, ["doctor"]).stdout.splitlines()
    said = {line[:15].strip(): line[15:].strip() for line in lines}
    assert said["usable cores"] == f"3 ({quota.reason})"
    assert said["usable memory"] == f"4.3 GB ({memory.reason})"
    assert said["extract"] == (
        "6 processes x 1 thread on cpu, unless told otherwise (not 64, one a core, for 4096 MB of "
        "memory: /sys/fs/cgroup/memory.max allows no more)"
    )
    facts = diagnose().machine
    assert facts["usable_memory_bytes"] == 4 << 30
    assert facts["cores_limited_by"] == quota.reason
    assert facts["memory_limited_by"] == memory.reason


def test_damaged_models_are_a_warning_and_a_cache_that_cannot_be_written_a_problem(
    tmp_path, monkeypatch
):
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "hand_recrop.tflite").write_bytes(b"half")
    assert any("damaged in the cache: hand_recrop" in warning for warning in diagnose().warnings)
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache/models/hand_recrop.tflite"))
    (problem,) = diagnose().problems
    assert "is not writable and lacks pose_detection, " in problem
    assert "set POSEMILL_CACHE to a folder you may write to" in problem


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"opencv_python_headless": "5.0.0.1"},
         ["about 1 px of noise", "pip install 'opencv-python-headless<5'"]),
        ({"opencv_python": "4.10.0"},
         ["opencv-python-headless and opencv-python are installed together"]),
        ({"ai_edge_litert": None}, ["pip install ai-edge-litert"]),
        ({"onnxruntime": "1.31.1", "onnxruntime_gpu": "1.31.1"},
         ["onnxruntime and onnxruntime-gpu are both installed, and the plain one hides"]),
    ],
)  # fmt: skip
def test_versions_that_do_worse_are_a_warning_and_no_problem(versions, words, monkeypatch):
    pretend_versions(monkeypatch, **versions)
    found = diagnose()
    assert any(all(word in warning for word in words) for warning in found.warnings)
    assert found.problems == []


def test_a_ray_cluster_is_asked_what_it_has(monkeypatch):
    load = doctor.plugins.load

    def pretend(kind, *rest, **how):
        about = {"executor": lambda address: {"at": address}}
        return about.get(kind) or load(kind, *rest, **how)

    monkeypatch.setattr(doctor.plugins, "load", pretend)
    assert diagnose("auto").cluster == {"at": "auto"}
    assert diagnose().cluster is None


def test_a_gpu_the_runtime_cannot_use_is_a_warning_and_no_device(monkeypatch):
    monkeypatch.setattr(doctor, "list_gpus", lambda: ["NVIDIA L4, 23034 MiB"])
    monkeypatch.setattr(doctor, "list_providers", lambda: ["CPUExecutionProvider"])
    found = diagnose()
    assert list(found.devices) == ["cpu"]
    assert any(
        "1 GPU(s) here that cannot be used: onnxruntime is for the CPU only; run: pip un" in each
        for each in found.warnings
    )
    monkeypatch.setattr(doctor, "list_providers", lambda: ["CUDAExecutionProvider"])
    assert diagnose().devices == {"cpu": "litert", "cuda:0": "onnxruntime"}


def test_a_base_install_lacks_onnx_runtime_and_that_is_all_right(monkeypatch):
    pretend_versions(monkeypatch, onnxruntime=None, onnx=None)
    found = diagnose()
    assert (found.problems, found.providers) == ([], [])
    assert "onnxruntime" not in found.versions
    monkeypatch.setattr(doctor, "list_gpus", lambda: ["NVIDIA L4, 23034 MiB"])
    assert any(
        warning.endswith("ONNX Runtime is not installed; run: pip install 'posemill[gpu]'")
        for warning in diagnose().warnings
    )


@pytest.mark.parametrize(
    ("made", "wanted"), [(True, "ai-edge-litert"), (False, "'posemill[onnx]'")]
)
def test_a_machine_without_a_runtime_or_a_package_is_a_problem(made, wanted, monkeypatch):
    pretend_versions(monkeypatch, ai_edge_litert=None, onnxruntime=None)
    monkeypatch.setattr(doctor, "has_litert_here", lambda: made)
    assert diagnose().problems == [f"nothing here runs the networks; run: pip install {wanted}"]
    pretend_versions(monkeypatch, pyarrow=None)
    result = CliRunner().invoke(run_line, ["doctor"])
    assert result.exit_code == 1
    assert "problem: pyarrow is not installed; run: pip install posemill" in result.stdout


def test_the_extras_of_users_say_which_of_their_packages_are_missing(monkeypatch):
    declared = [
        "numpy>=1.26",
        'numpy>=1.26; extra == "formats"',
        "no-such-package-here>=3; extra == 'formats'",
        'pytest[x]>=8; python_version < "3.99" and extra == "train"',
        "posemill[formats]; extra == 'train'",
        *(f"no-such-package-here; extra == '{name}'" for name in ("dev", "docs", "bench")),
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: declared)
    assert diagnose().extras == {"formats": ["no-such-package-here"], "train": []}

    def requires(name):  # as of a source folder on the path
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert diagnose().extras == {}


@pytest.mark.parametrize(
    ("installed", "shown"), [(None, {"gpu", "onnx", "all"}), ("1.31", {"gpu"})]
)
def test_no_extra_is_advised_that_would_bring_a_second_onnx_runtime(installed, shown, monkeypatch):
    declared = [f"onnx; extra == '{extra}'" for extra in ("gpu", "onnx", "all")]
    monkeypatch.setattr(metadata, "requires", lambda name: declared)
    pretend_versions(monkeypatch, onnxruntime=None, onnxruntime_gpu=installed)
    monkeypatch.setattr(doctor, "list_providers", list)
    assert set(diagnose().extras) == shown
    pretend_versions(monkeypatch, onnxruntime="1.31", onnxruntime_gpu=None)
    assert set(diagnose().extras) == {"onnx", "all"}


def test_opencv_is_tried_on_a_picture_and_timed():
    tried = try_library("opencv")
    assert tried.works
    assert tried.seconds["a picture"] > 0


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_a_library_that_traps_is_named_and_not_tried_again(tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "onnxruntime.py").write_text("import os\nos.kill(os.getpid(), 4)\n")
    (tmp_path / "modules" / "av.py").write_text("raise ImportError('_core.so: file too short')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    monkeypatch.setattr(doctor, "LIBRARIES", {"onnxruntime": "onnxruntime", "pyav": "av"})
    tried = try_libraries()
    assert tried["onnxruntime"] == Outcome(False, "illegal instruction (SIGILL)")
    problem, damaged = diagnose(tried=tried).problems
    assert "file too short" in damaged
    assert damaged.endswith("install it again: pip install --force-reinstall av")
    assert problem.startswith("onnxruntime was tried on this machine and failed: illegal instr")
    assert "engine_options={'runtime': 'litert'}" in problem
    (kept,) = (tmp_path / "tried" / "trials").glob("onnxruntime*")
    kept.write_text(kept.read_text().replace("illegal", "kept: illegal"))
    assert "FAILS: kept: illegal" in CliRunner().invoke(run_line, ["doctor"]).stdout
