"""`fit` as a script calls it: processes that start the script again."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("warm_children")

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

import posemill
from posemill.training.tuning import arms, modes

modes._PAYS_AFTER_SECONDS = 0.0  # several processes are tried at once
arms._LEAST_TURNS, arms._LEAST_SECONDS = 1, 0.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        return self.layer(x)


def train(**settings):
    x = torch.linspace(-1, 1, 20)[:, None]
    data = TensorDataset(x, 3 * x - 1)
    posemill.fit(Net(), data, data, loss=nn.MSELoss(), out="run", batch_size=10, precision="fp32",
                 workers=0, figures=False, tensorboard=False, save_every=1, **settings)

"""
GUARDED = f"""{SCRIPT}
if __name__ == "__main__":
    train(parallel="multi_process", processes=2, epochs=1)
    train(parallel="single", epochs=2, resume=True)
"""
UNGUARDED = SCRIPT + 'train(parallel="auto", epochs=1)\n'


def run(folder, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=240, check=False)  # fmt: skip


def run_script(folder, code):
    (folder / "script.py").write_text(code)
    return run(folder, "script.py")


def test_processes_go_on_with_a_model_whose_class_is_in_the_script(tmp_path):
    ended = run_script(tmp_path, GUARDED)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 4
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["identity"] == {"kind": "own", "class": "__main__.Net"}


def test_a_script_that_trains_when_it_is_imported_trains_in_one_process_with_auto(tmp_path):
    ended = run_script(tmp_path, UNGUARDED)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["processes"] == 1
    assert 'below if __name__ == "__main__":' in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert "out-of-memory" not in ended.stderr


def test_a_class_that_new_processes_do_not_find_is_named(tmp_path):
    # As in a notebook: there is no script that a process could import.
    ended = run(tmp_path, "-c", UNGUARDED)
    assert ended.returncode == 0, ended.stderr
    assert "put them into a module and import it" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
