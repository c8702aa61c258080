"""Multigrid on pixels: shapes of the batches, batch norm, stops inside a cycle."""

import numpy as np
import pytest
import torch
from small_sets import QUIET, killed_at
from torch import nn

import posemill
from posemill.errors import ConfigError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.fitting.workload import read_split
from posemill.training.multigrid.schedule import Multigrid
from posemill.training.multigrid.stages import Stages
from posemill.training.record.run_folder import RunFolder
from posemill.training.video.pixel_clips import grid_of

NUM_CLIPS, FRAMES, SIDE = 112, 8, 16
GRID = QUIET | {
    "epochs": 5, "batch_size": 4, "micro_batch": 4, "multigrid": True, "log_every": 1,
    "eval_every": 99, "save_every": 99, "save_every_steps": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Clips that grow brighter or darker, as `posemill frames --pack` writes them."""
    folder = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(0)
    rows = ["path,clip_id,split,label,format,offset,num_frames,width,height,fps,frame_indices"]
    with (folder / "clips.rgb").open("wb") as file:
        for number in range(NUM_CLIPS):
            course = np.linspace(60, 180, FRAMES)[:: 1 if number % 2 else -1]
            noise = rng.integers(-20, 20, (FRAMES, SIDE, SIDE, 3))
            frames = (course[:, None, None, None] + noise).astype(np.uint8)
            place = file.tell()
            file.write(frames.tobytes())
            label = "brighter" if number % 2 else "darker"
            rows.append(f"clips.rgb,clip{number},train,{label},rgb,{place},{FRAMES},{SIDE},{SIDE},"
                        f"25,0-{FRAMES - 1}")  # fmt: skip
    (folder / "index.csv").write_text("\n".join(rows))
    return folder


def clips_of(packed, **options):
    usual = {"size": SIDE, "sampling": f"segments:{FRAMES}", "split": "train"}
    return posemill.VideoClips(packed, **{**usual, **options})


class Net(nn.Module):
    """A network with batch norm over all frames, which takes any shape."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.transform = posemill.ClipTransform()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(8, 2)

    def forward(self, frames):
        clips = self.transform(frames)
        found = self.norm(self.conv(clips.flatten(0, 1))).relu().mean((2, 3))
        by_frame = found.unflatten(0, clips.shape[:2])
        return self.head(torch.cat([by_frame.mean(1), by_frame[:, -1] - by_frame[:, 0]], 1))


def test_frames_and_size_change_by_phase_and_by_step(packed):
    config = TrainConfig(**GRID)
    split = read_split("train_set", clips_of(packed), config)
    stages = list(Stages(split, config))
    first = stages[0].clips
    assert first.batch_factors == (16, 8, 8)
    shapes = [first[Draw(3, 0, 1.0, turn)].inputs["frames"].shape for turn in range(3)]
    assert [tuple(shape) for shape in shapes] == [
        (1, 2, 8, 8, 3), (1, 2, 11, 11, 3), (1, 2, 11, 11, 3),
    ]  # fmt: skip
    last = stages[-1].clips
    assert last.batch_factors == (4, 2, 1)
    assert last[Draw(3, 0, 1.0, 2)].inputs["frames"].shape == (1, 8, 16, 16, 3)
    lines = Stages(split, config).describe()
    plan = Stages(split, config)
    assert lines[0].startswith(
        f"multigrid: {plan.total_steps} steps in {plan.num_epochs} epochs instead of 140 in 5: "
    )
    assert "multigrid: 2 x 8² / 2 x 11²: 64 / 32 / 32 clips a step, lr x 2.83" in "\n".join(lines)
    assert len(first) == NUM_CLIPS


@pytest.mark.parametrize(("least", "sizes"), [(8, {8, 11, 16}), (11, {11, 16}), (12, {16})])
def test_sizes_that_a_network_does_not_take_are_not_gone_through(packed, least, sizes):
    grid = grid_of(clips_of(packed), least)
    schedule = Multigrid(
        5, grid.num_frames, grid.size, grid=grid.cycle, has_short_cycle=grid.has_short_cycle
    )
    assert {shape.size for shapes in schedule.long_cycle for shape in shapes} == sizes


def test_a_dense_window_is_drawn_when_frames_are_fewer(packed):
    assert str(clips_of(packed, sampling="dense:4/8").reshaped(1, 8).sampling) == "dense:1/8"
    two = clips_of(packed, sampling="dense:4/4").reshaped(2, 8)
    gaps = set()
    for epoch in range(30):
        first, second = two.at_epoch(1, epoch)["frames"].float().mean((1, 2, 3)).tolist()
        gaps.add(round((second - first) / (120 / (FRAMES - 1))))
    assert gaps == {1, 2}
    assert clips_of(packed, sampling="uniform:8").reshaped(2, 8).lengths == [2] * NUM_CLIPS
    assert clips_of(packed, sampling="segments:4x2").reshaped(4, 8).lengths == [4] * NUM_CLIPS
    with pytest.raises(ValueError, match="sampling all: the number of frames follows from a clip"):
        clips_of(packed, sampling="all").reshaped(2, 8)


@pytest.mark.parametrize("options", [{"sampling": "all"}, {"size": None}, {"size": (16, 8)}])
def test_clips_without_one_square_shape_are_refused(packed, options):
    with pytest.raises(ConfigError, match="multigrid=True needs clips of several frames"):
        posemill.fit(Net(), clips_of(packed, **options), loss=nn.CrossEntropyLoss(), **GRID)


def test_a_batch_that_does_not_divide_into_groups_is_refused(packed, tmp_path):
    settings = GRID | {"batch_size": 7, "micro_batch": 7, "out": str(tmp_path / "run")}
    said = (
        "multigrid normalises batches in groups of 8 clips or a few more, all of one size, but 28 "
        "clips of a pass do not divide into 3: use a batch_size"
    )
    with pytest.raises(ConfigError, match=said):
        posemill.fit(Net(), clips_of(packed), loss=nn.CrossEntropyLoss(), **settings)
    assert not (tmp_path / "run").exists()


def test_a_fit_stopped_inside_a_cycle_goes_on_bit_equal_and_leaves_plain_batch_norm(
    packed, tmp_path
):
    def fit(out, **changes):
        model = Net()
        posemill.fit(model, clips_of(packed), loss=nn.CrossEntropyLoss(),
                     **GRID | {"out": str(tmp_path / out)} | changes)  # fmt: skip
        return model

    whole = fit("whole")
    for cut in (3, 9):
        with killed_at(cut):
            fit(f"cut{cut}")
        again = fit(f"cut{cut}", resume=True)
        for name, value in whole.state_dict().items():
            assert torch.equal(value, again.state_dict()[name]), (cut, name)
    assert type(whole.norm) is nn.BatchNorm2d
    saved = RunFolder(tmp_path / "cut3").checkpoints.load("last")
    assert sorted(saved.weights) == sorted(Net().state_dict())
    Net().load_state_dict(dict(saved.weights))
