import pytest
import torch
from torch import Tensor, nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.fitting.workload import make_user_workload
from posemill.training.loop.stepping import Stepper, checkpoint_blocks
from posemill.training.loop.timing import Clock
from posemill.training.ranks import run_ranks
from posemill.training.runtime import Runtime

CPU = torch.device("cpu")
CONFIG = TrainConfig(mode="multi_process", processes=2, threads=1, batch_size=8, micro_batch=2,
                     optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, num_workers=0,
                     epochs=1, seed=0, ema_decay=0.5)  # fmt: skip


class Net(nn.Module):
    """Two layers, one more for some samples only, and one that is never used."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(3, 5), nn.Linear(5, 5)])
        self.head = nn.Linear(5, 1)
        self.sometimes = nn.Linear(5, 5)
        self.never = nn.Linear(5, 5)

    def forward(self, inputs):
        hidden = inputs
        for block in self.blocks:
            hidden = torch.tanh(block(hidden))
        chosen = inputs[:, :1] > 0
        if chosen.any():
            hidden = hidden + self.sometimes(hidden) * chosen
        return self.head(hidden)


def samples():
    draw = torch.Generator().manual_seed(3)
    # 17 in steps of 8 for two processes: the last step has one sample, one process has none.
    return [(torch.randn(3, generator=draw), torch.randn(1, generator=draw)) for _ in range(17)]


def take_epoch(changes, runtime):
    """Return the weights after an epoch, their average, and the losses of the steps."""
    is_twice = changes.pop("is_twice", False)
    config = CONFIG.replace(**changes)
    torch.manual_seed(runtime.rank)  # the weights of the first process count
    workload = make_user_workload(Net(), (samples(), None), config, loss=nn.MSELoss())
    if is_twice:
        checkpoint_blocks(workload.model)
    stepper = Stepper(workload, config, runtime=runtime, clock=Clock(CPU))
    loader = EpochLoader(workload.train, config, runtime, shuffle=True)
    losses, batches = [], loader.batches()
    for step in range(loader.num_steps):
        stepper.take(batches, loader.sampler.num_micro_batches(step), 0.1)
        losses.append(stepper.read_totals())
    return {
        "weights": {name: tensor.tolist() for name, tensor in workload.model.state_dict().items()},
        "average": [tensor.tolist() for tensor in stepper.average.shadow.values()],
        "losses": losses,
        "is_same": len({str(found) for found in runtime.gather(
            [tensor.tolist() for tensor in workload.model.parameters()])}) == 1,
    }  # fmt: skip


CASES = {
    "accumulated": {},
    "at once": {"micro_batch": 8},
    "clipped": {"clip_grad_norm": 0.01},
    "computed twice": {"is_twice": True},
}


def all_cases(runtime):
    found = {name: take_epoch(dict(changes), runtime) for name, changes in CASES.items()}
    return found | {"watched": _watch_exchange(CONFIG, runtime)}  # last: it changes `backward`


@pytest.fixture(scope="module")
def two_processes(warm_python):
    with warm_python.used():
        return run_ranks(all_cases, CONFIG)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_take_the_steps_of_one(two_processes, case):
    one, two = take_epoch(dict(CASES[case]), Runtime()), two_processes[case]
    assert two["is_same"], "the processes have different weights"
    assert [count for _, count in two["losses"]] == [8, 8, 1]
    for (loss, _), (expected, _) in zip(two["losses"], one["losses"], strict=True):
        assert loss == pytest.approx(expected, abs=1e-6)
    assert two["weights"].keys() == one["weights"].keys()
    for name, values in one["weights"].items():
        torch.testing.assert_close(torch.tensor(two["weights"][name]), torch.tensor(values),
                                   atol=1e-6, rtol=1e-5)  # fmt: skip
    for average, expected in zip(two["average"], one["average"], strict=True):
        torch.testing.assert_close(torch.tensor(average), torch.tensor(expected),
                                   atol=1e-6, rtol=1e-5)  # fmt: skip


def test_gradients_are_exchanged_once_a_step_and_while_the_backward_pass_runs(two_processes):
    found = two_processes["watched"]
    assert found["exchanges"] == [1, 1, 1], "micro-batches but the last exchange nothing"
    assert found["is_in_backward"]


def _watch_exchange(config, runtime):
    """Count the exchanges of each step, and see whether one began before `backward` returned."""
    workload = make_user_workload(Net(), (samples(), None), config, loss=nn.MSELoss())
    stepper = Stepper(workload, config, runtime=runtime, clock=Clock(CPU))
    events = []

    def exchange(_, bucket):
        events.append("exchange")
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    exchange.__annotations__.clear()  # torch compares them with its own, not as text
    stepper._objective.register_comm_hook(None, exchange)
    plain = Tensor.backward

    def backward(self, *args, **options):
        plain(self, *args, **options)
        events.append("backward")

    Tensor.backward = backward
    loader = EpochLoader(workload.train, config, runtime, shuffle=True)
    batches, exchanges = loader.batches(), []
    for step in range(loader.num_steps):
        before = events.count("exchange")
        stepper.take(batches, loader.sampler.num_micro_batches(step), 0.1)
        exchanges.append(events.count("exchange") - before)
    return {"exchanges": exchanges, "is_in_backward": events[-2:] == ["exchange", "backward"]}
