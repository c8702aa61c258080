import copy
from functools import partial

import pytest
import torch
from torch import nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.multigrid.norms import aggregate_norms, group_norms, restore_norms
from posemill.training.ranks import run_ranks
from posemill.training.runtime import Runtime

# A group goes through the convolution and the linear layer in a larger batch than alone: sums of 27
# and 144 products, in the order that the processor's kernel takes for that shape. Both are divided
# by their own deviations, of 0.1 and more, which makes errors ten times larger.
ULPS = 64


def make_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                          nn.Linear(4 * 36, 5), nn.BatchNorm1d(5))  # fmt: skip
    nn.init.normal_(model[1].weight)
    return model


def clips(count):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("most", "num_clips", "size"),
    [(16, 16, 8), (24, 10, 5)],  # the last batch of an epoch has fewer groups
)
def test_a_large_batch_is_normalised_in_groups_of_eight(most, num_clips, size):
    grouped, batch = make_model(), clips(num_clips)
    group_norms(grouped, most, Runtime())
    alone = torch.cat([make_model()(part) for part in batch.split(size)])
    found = grouped(batch)
    # A kernel takes its sums in an order that depends on the shape and on the processor.
    unit = torch.finfo(alone.dtype).eps * alone.detach().abs().max()
    assert (found - alone).abs().max() <= ULPS * unit
    assert not torch.allclose(found, make_model()(batch), atol=1e-3), "one group is another"
    found.sum().backward()
    assert grouped[1].weight.grad.shape == (4,), "one scale for all groups"
    assert torch.isfinite(grouped(clips(7))).all()


def test_the_statistics_of_groups_are_joined_before_an_evaluation():
    model = make_model()
    group_norms(model, 16, Runtime())
    batch = clips(16)
    model(batch)
    halves = [copy.deepcopy(make_model()) for _ in range(2)]
    for half, part in zip(halves, batch.chunk(2), strict=True):
        half(part)
    means = torch.stack([half[1].running_mean for half in halves])
    variances = torch.stack([half[1].running_var for half in halves])
    aggregate_norms(model)
    assert torch.allclose(model[1].running_mean, means.mean(0))
    expected = variances.mean(0) + (means - means.mean(0)).square().mean(0)
    assert torch.allclose(model[1].running_var, expected)
    model.eval()
    plain = make_model().eval()
    plain.load_state_dict(model.state_dict())
    assert torch.allclose(model(batch), plain(batch), atol=1e-6)


def test_checkpoints_and_the_model_at_the_end_are_plain():
    model = make_model()
    names = list(model.state_dict())
    group_norms(model, 32, Runtime())
    assert list(model.state_dict()) == names
    model(clips(32))
    restore_norms(model)
    assert type(model[1]) is nn.BatchNorm2d
    assert type(model[5]) is nn.BatchNorm1d
    assert sorted(dict(model.named_buffers())) == sorted(dict(make_model().named_buffers()))
    assert model[1].running_mean.abs().sum() > 0
    assert int(model[1].num_batches_tracked) == 1


def _norm_in_ranks(runtime):
    """One of two processes with half of the clips each."""
    model = make_model()
    group_norms(model, 4, runtime)
    batch = clips(8)[runtime.rank * 4 : runtime.rank * 4 + 4].requires_grad_()
    found = model(batch)
    found.square().sum().backward()
    restore_norms(model)
    gathered = runtime.gather((found.detach().numpy(), batch.grad.numpy()))
    return {"outputs": [part[0].tolist() for part in gathered],
            "gradients": [part[1].tolist() for part in gathered],
            "mean": model[1].running_mean.tolist(), "var": model[1].running_var.tolist(),
            }  # fmt: skip


@pytest.mark.usefixtures("warm_children")
def test_processes_with_few_clips_share_their_statistics():
    config = TrainConfig(parallel="multi_process", processes=2, threads=1, device="cpu")
    found = run_ranks(partial(_norm_in_ranks), config)
    model, batch = make_model(), clips(8).requires_grad_()
    whole = model(batch)
    whole.square().sum().backward()
    outputs = torch.cat([torch.tensor(part) for part in found["outputs"]])
    gradients = torch.cat([torch.tensor(part) for part in found["gradients"]])
    assert torch.allclose(outputs, whole, atol=1e-4)
    assert torch.allclose(gradients, batch.grad, atol=1e-4)
    assert found["mean"] == pytest.approx(model[1].running_mean.tolist(), abs=1e-5)
    assert found["var"] == pytest.approx(model[1].running_var.tolist(), abs=1e-5)
