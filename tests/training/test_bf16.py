"""A processor whose flags name bf16 and that does not compute it: planted, and lived with."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.record.run_folder import RunFolder
from tools.warm_python import start_warm

# Every Python that finds this on its path has such a processor: whoever computes in bf16 dies.
PROCESSOR = """
import importlib.abc, importlib.util, os, signal, sys, time


def break_bf16(torch):
    torch.cpu._is_avx512_bf16_supported = lambda: True
    enter = torch.autocast.__enter__
    isa = []

    def enter_or_die(self):
        # As oneDNN does: what the variable is at the first use is what it stays.
        isa.append(os.environ.get("ONEDNN_MAX_CPU_ISA"))
        fault = os.environ["PLANTED_FAULT"]
        if self.fast_dtype is not torch.bfloat16 or not self._enabled:
            return enter(self)
        if fault == "amx" and isa[0] == "AVX512_CORE_BF16":
            return enter(self)
        if fault == "error":
            raise RuntimeError("could not create a primitive")
        if fault == "hang":
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGILL)

    torch.autocast.__enter__ = enter_or_die


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        load = spec.loader.exec_module

        def load_and_break(module):
            load(module)
            break_bf16(module)

        spec.loader.exec_module = load_and_break
        return spec


sys.meta_path.insert(0, Finder())
"""

TESTS = Path(__file__).parents[1]  # where cli_runner is
# What a user does in a day; prints what each command said.
DAY = """
import json, os, sys
from pathlib import Path
from cli_runner import CliRunner
from posemill.commands.line import run_line

said = {}


def posemill(*arguments):
    result = CliRunner().invoke(run_line, [str(word) for word in arguments])
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


said["train"] = posemill("train", "base.toml", "--out=auto")
said["again"] = posemill("train", "base.toml", "--out=fp32", "--precision=fp32")
said["evaluate"] = posemill("evaluate", "auto")
said["predict"] = posemill("predict", "auto", sys.argv[1])
Path("sweep.toml").write_text('config = "base.toml"\\nout = "sweep"\\n[grid]\\nlr = [0.01]\\n')
said["sweep"] = posemill("sweep", "sweep.toml", "--json")
said["tune"] = posemill("tune", "base.toml", "--tune-seconds=1")

import torch
import posemill as package

try:
    package.train("base.toml", out="run", precision="bf16")
except package.errors.DeviceError as error:
    said["refused"] = str(error)
assert not Path("run").exists()
mkldnn = torch.backends.mkldnn.enabled, torch.backends.mkldnn.is_available()
samples = [(torch.randn(4), torch.randn(4)) for _ in range(16)]
said["fit"] = package.fit(
    torch.nn.Linear(4, 4), samples, loss=torch.nn.functional.mse_loss, out="fit", epochs=1,
    parallel="single", progress=False, tensorboard=False, figures=False,
).summary["precision_reason"]
assert not any(name.startswith("ONEDNN") for name in os.environ), "put back"
assert (torch.backends.mkldnn.enabled, torch.backends.mkldnn.is_available()) == mkldnn
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A Python that has loaded torch on such a processor, and has not computed."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "sitecustomize.py").write_text(PROCESSOR)
    path = os.pathsep.join([str(folder), str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    environment.pop("ONEDNN_MAX_CPU_ISA", None)  # of the tests beside: see conftest.py
    with start_warm(folder, environment) as python:
        yield python


@pytest.fixture
def planted(tmp_path, warm):
    """Return a function that runs Python on a processor with a fault."""

    def run(fault, *arguments, **variables):
        # A cache for each fault, which all tests share: what was tried is not tried again.
        cache = Path(warm.executable).with_name(f"cache-{fault}")
        planted = {"PLANTED_FAULT": fault, "POSEMILL_CACHE": str(cache)}
        environment = {**warm.environment, **planted, **variables}
        return subprocess.run(
            [warm.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def _base(settings, tmp_path):
    config = TrainConfig(
        **settings(epochs=1, model="mlp", model_options={}, precision="auto", progress=True)
    )
    (tmp_path / "base.toml").write_text(Resolved.of(config).to_toml(is_short=True))


@pytest.mark.usefixtures("_base")
def test_everything_works_in_fp32_where_bf16_fails_and_says_why(planted, clips_folder, tmp_path):
    ended = planted("trap", "-c", DAY, str(clips_folder / "test_keypoints.npz"))
    assert ended.returncode == 0, ended.stderr[-3000:]
    said = json.loads(ended.stdout.splitlines()[-1])
    sentence = "bf16 was tried on this CPU and failed: illegal instruction (SIGILL)"
    assert " ".join(said["train"].split()).count(sentence) == 2, "at the start and at the end"
    assert sentence in said["fit"]
    assert f'precision="bf16" cannot be used: {sentence}' in said["refused"]
    assert sentence in " ".join(said["tune"].split())
    summaries = {
        path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/summary.json")
    }
    assert summaries["auto"]["precision"] == summaries["fit"]["precision"] == "fp32"
    assert summaries["auto"]["precision_reason"] == sentence
    assert sentence in (tmp_path / "auto" / "config.toml").read_text()
    assert summaries["auto"]["scores"] == summaries["fp32"]["scores"]
    (swept,) = (tmp_path / "sweep").glob("*/run/summary.json")
    assert json.loads(swept.read_text())["precision_reason"] == sentence
    assert RunFolder(swept.parent).checkpoints.has("best")
    assert '"state": "done"' in said["sweep"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("trap", "illegal instruction (SIGILL); trainings use fp32"),
        ("amx", "with AMX it fails: illegal instruction (SIGILL)"),
    ],
)
def test_doctor_says_what_is_switched_off_and_what_it_costs(planted, fault, said):
    script = "from posemill.commands import line, machine; machine.try_libraries = dict; "
    found = json.loads(planted(fault, "-c", f"{script} line.main(['doctor', '--json'])").stdout)
    (warning,) = [text for text in found["warnings"] if "bf16" in text]
    assert warning.endswith(said)
    assert found["tried"]["bf16"]["works"] is (fault == "amx")
    assert set(found["tried"]["bf16"]["seconds"]) == ({"fp32", "bf16"} if fault == "amx" else set())


@pytest.mark.usefixtures("_base")
def test_amx_is_switched_off_for_this_process_and_its_ranks_where_that_helps(planted, tmp_path):
    train = ("-m", "posemill", "train", "base.toml", "--parallel=multi_process", "--processes=1")
    ended = planted("amx", *train, "--out=run", "--precision=bf16")
    assert ended.returncode == 0, ended.stderr[-3000:]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["precision"] == "bf16"
    assert summary["precision_reason"] == (
        "bf16 works on this CPU with AMX off (ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16); with AMX it "
        "fails: illegal instruction (SIGILL)"
    )


@pytest.mark.usefixtures("_base")
def test_amx_is_not_switched_off_where_torch_has_computed_already(planted, tmp_path):
    script = """
import os, posemill, torch
with torch.autocast("cpu", enabled=False):
    pass
def ours():
    return {name: os.environ[name] for name in os.environ if name.startswith(("ONEDNN", "POSE"))}
before = ours()
reason = posemill.train("base.toml", out="run").summary["precision_reason"]
assert ours() == before
print(reason)
"""
    ended = planted("amx", "-c", script)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "start the program with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in ended.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["precision"] == "fp32"


def test_a_trial_that_hangs_or_fails_says_so_and_what_the_user_set_is_what_is_tried(planted):
    script = "import dataclasses, json; from posemill.training.bf16 import try_bf16; "
    script += "print(json.dumps(dataclasses.asdict(try_bf16())))"
    ours = "import torch; from posemill import machine; machine.is_own_program = True; "
    hang = "from posemill.training import bf16; bf16._HANG_SECONDS = 0.5; "
    cases = (
        ("hang", hang, "no answer within 0.5 s"),  # nothing healthy has to be quick for this
        ("error", "", "RuntimeError: could not create a primitive"),
    )
    for fault, limit, reason in cases:
        trial = json.loads(planted(fault, "-c", ours + limit + script).stdout)
        assert [trial[way]["reason"] for way in ("plain", "without_amx")] == [reason, reason]
    for isa, works in (("AVX2", False), ("AVX512_CORE_BF16", True)):
        ended = planted("amx", "-c", script, ONEDNN_MAX_CPU_ISA=isa)
        trial = json.loads(ended.stdout)
        assert trial["plain"]["works"] is works
        assert trial["without_amx"] is None


@pytest.mark.usefixtures("_base")
def test_a_run_of_bf16_is_continued_and_scored_in_fp32_where_bf16_fails(planted, tmp_path):
    train = ("-m", "posemill", "train", "base.toml", "--out=run")
    begun = planted("amx", *train, "--precision=bf16", ONEDNN_MAX_CPU_ISA="AVX512_CORE_BF16")
    assert begun.returncode == 0, begun.stderr[-3000:]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["precision"] == "bf16"
    reason = "the run was trained in bf16; bf16 was tried on this CPU and failed: illegal"
    scored = planted("trap", "-m", "posemill", "evaluate", "run")
    assert scored.returncode == 0, scored.stderr[-3000:]
    assert f"scored in fp32: {reason}" in " ".join(scored.stderr.split())
    ended = planted("trap", *train, "--resume", "--epochs=2")
    assert ended.returncode == 0, ended.stderr[-3000:]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["precision"] == "fp32"
    assert summary["precision_reason"].startswith(reason)
