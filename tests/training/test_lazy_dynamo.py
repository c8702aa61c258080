import subprocess
import sys

import pytest

SCRIPT = """
import importlib
import sys
import torch
import torch.utils.checkpoint
from torch import distributed
from posemill.training.config.train_config import TrainConfig
from posemill.training.lazy_dynamo import load_dynamo_late
from posemill.training.runtime import numeric_settings

load_dynamo_late()
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
shared = torch.nn.parallel.DistributedDataParallel(model)


def step(run):
    optimizer.zero_grad()
    run(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())


with numeric_settings(TrainConfig()):
    step(shared)
    step(lambda inputs: torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=False))
assert not {"sympy", "torch._dynamo.utils"} & set(sys.modules), "loaded by a plain training"

torch._dynamo.config.suppress_errors = True
assert importlib.import_module("torch._dynamo.config").suppress_errors, "what is set is kept"
compiled = torch.compile(model, backend="eager")
step(compiled)
assert torch.equal(compiled(torch.ones(1, 2)), model(torch.ones(1, 2)))
assert torch._dynamo is sys.modules["torch._dynamo"]
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1, "compiled for real"
import torch._dynamo.config
assert torch._dynamo.config.optimize_ddp
load_dynamo_late()
assert torch._dynamo.config.optimize_ddp, "what is loaded stays"
del shared  # the group's last owner would wait for its threads, holding Python's lock
import gc
gc.collect()
distributed.destroy_process_group()
"""


@pytest.mark.usefixtures("warm_children")
def test_the_compiler_is_loaded_when_something_compiles_and_not_before():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
