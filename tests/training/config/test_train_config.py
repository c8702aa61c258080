import dataclasses
import os
from pathlib import Path

import pytest

from posemill.errors import ConfigError
from posemill.training.config import resolve
from posemill.training.config.resolve import (
    Resolved,
    read_config,
    resolve_config,
    resolve_made,
    with_data_kind,
)
from posemill.training.config.run_settings import PRESETS, SpeedSettings
from posemill.training.config.train_config import FIELDS, TrainConfig

DEFAULTS = """
data='' labels='' task='classify' train_split='train' val_split='dev' test_split='test'
dev_fraction=None folds=0 fold=0 folds_by='' leave_out='' split_seed=0 unit='clip'
skeleton='auto' normalize='auto' num_dims=None num_frames=0 max_frames=0 short_clips='error'
missing_labels='error' csv_dims=2 csv_frames=1 cache='mmap' cache_folder=''
bucket_by_length=True data_kind='auto' model='tcn_bilstm' model_options={} loss_options={}
label_smoothing=0.1 ctc_decoder='greedy' beam_width=10 augment_rotate=None augment_scale=None
augment_shift=0.0 augment_noise=None augment_time_warp=None augment_crop=None
augment_joint_dropout=0.0 augment_part_dropout=0.0 augment_mirror=0.0
video_sampling='segments:8' video_size=112 video_resize='crop' video_decoder='pyav'
video_on_error='replace' video_scale=0.5 video_flip=0.0 video_flip_labels={} video_colour=0.2
video_erase=0.0 video_precompute=0 epochs=60 max_steps=0 batch_size=64 lr=0.002
optimizer='adamw' weight_decay=0.01 momentum=0.9 scheduler='cosine' warmup_epochs=1.0
final_lr=0.0 step_epochs=[] step_gamma=0.2 plateau_patience=3 multigrid=False
multigrid_options={} clip_grad_norm=1.0 ema_decay=0.0 patience=0 seed=0 preset='balanced'
parallel='auto' processes=0 threads=0 device='auto' precision='auto' micro_batch=32 workers=-1
prefetch_factor=2 pin_memory=True persistent_workers=True compile='auto'
activation_checkpointing=False channels_last=False tune='none' tune_seconds=90.0
deterministic=False cudnn_benchmark=True out='' resume=False eval_every=2 eval_scales=[]
save_every=2 save_every_steps=0 log_every=10 tensorboard=True figures=True progress=True
"""
LIMITS = """
dev_fraction:0..0.9 folds:0.. fold:0.. split_seed:0.. num_dims:0..3 num_frames:0..
max_frames:0.. csv_dims:1.. csv_frames:1.. label_smoothing:0..0.9 beam_width:1..
augment_rotate:0.. augment_scale:0..0.9 augment_shift:0.. augment_noise:0..
augment_time_warp:0..0.9 augment_crop:0..0.9 augment_joint_dropout:0..0.9
augment_part_dropout:0..0.9 augment_mirror:0..1 video_size:32.. video_scale:..1 video_flip:0..1
video_colour:0..1 video_erase:0..1 video_precompute:0.. epochs:1.. max_steps:0.. batch_size:1..
lr:0.. weight_decay:0.. momentum:0..1 warmup_epochs:0.. final_lr:0..1 step_gamma:0..1
plateau_patience:1.. clip_grad_norm:0.. ema_decay:0..0.99999 patience:0.. seed:0.. processes:0..
threads:0.. micro_batch:1.. workers:-1.. prefetch_factor:1.. tune_seconds:1.. eval_every:1..
save_every:1.. save_every_steps:0.. log_every:1..
"""


def test_the_defaults_and_limits_of_every_setting_are_those_that_help_shows():
    fields = FIELDS.items()
    defaults = [f"{name}={field.default!r}".replace(" ", "") for name, field in fields]
    assert defaults == DEFAULTS.split()
    pairs = [(name, field.meta["least"], field.meta["most"]) for name, field in fields]
    limits = [
        f"{name}:{least}..{most}" for name, least, most in pairs if (least, most) != (None,) * 2
    ]
    assert [limit.replace("None", "") for limit in limits] == LIMITS.split()
    resolved = resolve_config(None, {}, cores=1).config.to_dict() | {"workers": -1}
    assert {name: field.default for name, field in FIELDS.items()} == resolved


@pytest.mark.parametrize("name", ["gradient_accumulation_steps", "ims_per_gpu"])
@pytest.mark.parametrize(
    ("value", "expected"), [(True, "int"), (1.5, "int"), ("2", "int"), (0, "at least 1")]
)
def test_passes_and_their_clips_are_whole_numbers(name, value, expected):
    with pytest.raises(ConfigError, match=f"{name}: expected {expected}, got {value!r}"):
        TrainConfig(**{name: value})


@pytest.mark.parametrize(
    ("given", "micro", "batch"),
    [
        ({"gradient_accumulation_steps": 1}, 32, 32),
        ({"gradient_accumulation_steps": 3, "batch_size": 64}, 22, 64),
        ({"gradient_accumulation_steps": 2, "preset": "extreme"}, 128, 256),
        ({"gradient_accumulation_steps": 4, "batch_size": 64, "processes": 2}, 8, 64),
        ({"gradient_accumulation_steps": 2, "ims_per_gpu": 4, "processes": 0}, 4, 8),
        ({"ims_per_gpu": 32}, 32, 32),
        ({"ims_per_gpu": 128}, 128, 128),
        ({"ims_per_gpu": 32, "processes": 2}, 32, 64),
        ({"ims_per_gpu": 32, "batch_size": 64}, 32, 64),
        ({"ims_per_gpu": 32, "micro_batch": 8}, 8, 32),  # where memory is short
        ({"gradient_accumulation_steps": 2, "micro_batch": 4, "batch_size": 8}, 4, 8),
    ],
)
def test_two_of_pass_batch_and_accumulation_make_the_third(given, micro, batch):
    config = TrainConfig(**given)
    assert (config.micro_batch, config.batch_size) == (micro, batch)


def test_accumulation_of_video_goes_by_the_presets_of_video(tmp_path):
    (tmp_path / "a.mp4").touch()
    for data, batch in ((str(tmp_path), 32), ("", 64)):
        for preset, steps in (("balanced", 2), ("extreme", 1)):
            given = {"data": data, "preset": preset, "accumulation_steps": steps}
            expected = batch * (2 if preset == "extreme" else 1)
            assert resolve_config(None, given).config.batch_size == expected
            assert with_data_kind(TrainConfig(**given)).batch_size == expected
    told = TrainConfig(data="nowhere", data_kind="video", accumulation_steps=2)
    assert (told.batch_size, told.model.name) == (32, "tsm")


def test_making_a_configuration_does_not_look_at_the_disk(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").touch()

    def refuse(*_, **__):
        raise AssertionError("the disk was looked at")

    with monkeypatch.context() as patch:
        for name in ("is_file", "is_dir", "exists", "stat", "glob"):
            patch.setattr(Path, name, refuse)
        patch.setattr(os, "walk", refuse)
        made = TrainConfig(data=str(tmp_path), preset="extreme").replace(lr=0.5)
        assert (made.data.kind, made.micro_batch) == ("auto", 128)
    known = with_data_kind(made)
    assert (known.data.kind, known.micro_batch, known.lr) == ("video", 64, 0.5)
    assert resolve_made(made).sources["data_kind"] == "default: by what the path holds"
    resolved = resolve_config(None, {"data": str(tmp_path)})
    assert (resolved.config.data.kind, resolved.config.model.name) == ("video", "tsm")
    assert (resolved.sources["data_kind"], resolved.sources["model"]) == (
        "default: by what the path holds",
        "preset",
    )
    said = resolve_config(None, {"data": str(tmp_path), "data_kind": "keypoints"})
    assert (said.config.micro_batch, said.sources["data_kind"]) == (32, "flag")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("parallel", "multi_treads", r"parallel: .* auto \| .*; did you mean 'multi_thread'\?"),
        ("precision", "fp6", r"precision: expected .*; did you mean 'fp16'\?"),
        ("epochs", 0, "epochs: expected at least 1, got 0"),
        ("epochs", "ten", "epochs: expected int, got 'ten'"),
        ("lr", float("nan"), "lr: expected a finite number, got nan"),
        ("resume", 1, "resume: expected bool, got 1"),
        ("batch_size", True, "batch_size: expected int, got True"),
        ("step_epochs", 3, "step_epochs: expected list of numbers, got 3"),
        ("scheduler", "step", 'scheduler="step" needs step_epochs'),
        ("folds", 1, "fold=0 of folds=1: expected at least two folds"),
    ],
)
def test_a_wrong_value_says_what_was_expected(field, value, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**{field: value})


def test_flags_win_over_the_file_and_the_file_over_the_preset(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'epochs = 3\nlr = 1\nmodel_options = { width = 8 }\n[speed]\npreset = "extreme"\n'
        "prefetch_factor = 7\n"
    )
    resolved = resolve_config(path, {"epochs": 5}, cores=4)
    config, sources = resolved.config, resolved.sources
    assert (config.epochs, sources["epochs"]) == (5, "flag")
    assert (config.lr, sources["lr"]) == (1.0, "file")
    assert (config.prefetch_factor, sources["prefetch_factor"]) == (7, "file")
    assert (config.micro_batch, sources["micro_batch"]) == (128, "preset")
    assert (config.workers, sources["workers"]) == (4, "machine: 4 cores, preset extreme wants 16")
    assert (config.seed, sources["seed"]) == (0, "default")
    assert config.model_options == {"width": 8}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_touch_speed_cadence_and_the_batch_only(preset):
    config, base = resolve_config(None, {"preset": preset}).config, TrainConfig()
    for name, field in FIELDS.items():
        if field.group in ("model", "augmentation", "optimisation") and name != "batch_size":
            assert getattr(config, name) == getattr(base, name), name


def test_presets_scale_down_by_what_the_machine_has_and_say_so():
    large = resolve_config(None, {"preset": "extreme"}, cores=32, memory_bytes=64 << 30)
    assert (large.config.micro_batch, large.config.workers) == (128, 16)
    assert large.sources["micro_batch"] == "preset"
    assert large.sources["workers"] == "machine: 32 cores, preset extreme"
    small = resolve_config(None, {"preset": "extreme"}, cores=2, memory_bytes=3 << 30)
    assert (small.config.micro_batch, small.config.workers) == (32, 2)
    assert small.config.batch_size == large.config.batch_size == 128
    said = "machine: 3072 MB of memory, preset extreme wants 128"
    assert small.sources["micro_batch"] == said
    asked = resolve_config(None, {"preset": "extreme", "micro_batch": 128}, memory_bytes=1 << 30)
    assert asked.config.micro_batch == 128


@pytest.mark.parametrize(
    ("file", "flags", "micro", "batch"),
    [
        ("batch_size = 64", {"gradient_accumulation_steps": 4}, 16, 64),
        ("micro_batch = 8", {"gradient_accumulation_steps": 4}, 8, 32),
        ("gradient_accumulation_steps = 4", {"gradient_accumulation_steps": 2}, 32, 64),
        ("ims_per_gpu = 16\naccumulation_steps = 4", {"accumulation_steps": 2}, 16, 32),
        ("ims_per_gpu = 16\naccumulation_steps = 4", {"ims_per_gpu": 8}, 8, 32),
        ("ims_per_gpu = 16", {"accumulation_steps": 4}, 16, 64),
        ("accumulation_steps = 4", {"ims_per_gpu": 16}, 16, 64),
        ("accumulation_steps = 4", {"batch_size": 128}, 32, 128),
    ],
)
def test_flags_change_one_of_pass_batch_and_accumulation_of_a_file(
    tmp_path, file, flags, micro, batch
):
    path = tmp_path / "c.toml"
    path.write_text(file)
    resolved = resolve_config(path, flags, memory_bytes=1 << 28)
    assert (resolved.config.micro_batch, resolved.config.batch_size) == (micro, batch)
    assert "preset" not in (resolved.sources["micro_batch"], resolved.sources["batch_size"])
    again = tmp_path / "again.toml"
    again.write_text(resolved.to_toml())
    assert resolve_config(again).config == resolved.config


def test_what_contradicts_itself_about_the_batch_says_what_would_not():
    assert TrainConfig(batch_size=65, gradient_accumulation_steps=2).micro_batch == 33
    assert TrainConfig(micro_batch=4, processes=2, gradient_accumulation_steps=3).batch_size == 24
    assert TrainConfig(use_fp16=False).precision == "fp32"
    for wrong, said in (
        ({"use_fp16": True, "precision": "bf16"}, "use_fp16 and precision say the same thing"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps: expected at least 1"),
        (
            {"gradient_accumulation_steps": 2, "micro_batch": 4, "batch_size": 9},
            "gradient_accumulation_steps=2 of 4 clips make a batch of 8, but batch_size=9: "
            "change one of them, for example micro_batch=5",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            TrainConfig(**wrong)


def test_a_preset_gives_the_same_however_the_configuration_is_made(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[speed]\npreset = "memory-limited"\n')
    made = [
        TrainConfig(preset="memory-limited"),
        TrainConfig(speed={"preset": "memory-limited"}),
        TrainConfig(speed=SpeedSettings(preset="memory-limited")),
        TrainConfig(**{"preset": "memory-limited"}),
        TrainConfig(preset="extreme").replace(preset="memory-limited"),
        resolve_config(None, {"preset": "memory-limited", "workers": -1}).config,
        resolve_config(path).config,
    ]
    for config in made:
        assert config.speed.micro_batch == 32
        assert config.replace(workers=-1) == made[0]
    assert TrainConfig(preset="extreme", micro_batch=3).replace(preset="balanced").micro_batch == 3


def test_groups_are_tables_in_the_file_and_attributes_in_python(tmp_path):
    flat = TrainConfig(
        data='a "b"\\c ü', lr=1e-4 / 3, model="mlp", augment_rotate=3, deterministic=True,
        model_options={"width": 8, "name": "x", "layers": [1, 2]}, scheduler="step",
        step_epochs=[2, 3.5],
    )  # fmt: skip
    nested = TrainConfig(
        data={"path": Path('a "b"\\c ü')}, augmentation={"rotate": 3},
        speed={"deterministic": True},
        model={"name": "mlp", "options": {"width": 8, "name": "x", "layers": [1, 2]}},
        optimisation={"lr": 1e-4 / 3, "scheduler": "step", "step_epochs": [2, 3.5]},
    )  # fmt: skip
    assert flat == nested
    assert flat.augmentation.rotate == flat.augment_rotate == 3.0
    assert flat.optimisation.lr == flat.lr == 1e-4 / 3
    path = tmp_path / "c.toml"
    path.write_text(Resolved.of(flat).to_toml(), encoding="utf-8")
    assert TrainConfig(**read_config(path)) == flat, "read back as it was written"
    resolved = resolve_config(path)
    assert resolved.config.replace(workers=-1, data_kind="auto") == flat
    assert "# file" in resolved.to_toml()


@pytest.mark.parametrize(
    ("flags", "cores", "workers", "why"),
    [
        ({"preset": "balanced"}, 3, 2, "machine: 3 cores, preset balanced wants 4"),
        ({"preset": "balanced"}, 1, 0, "machine: 1 core, preset balanced wants 4"),
        ({"preset": "balanced"}, 2, 1, "machine: 2 cores, preset balanced wants 4"),
        ({"preset": "balanced", "parallel": "multi_process", "processes": 2}, 6, 2,
         "machine: 6 cores, preset balanced wants 4"),
        ({"preset": "balanced"}, 5, 4, "machine: 5 cores, preset balanced"),
        # As many ranks as cores where none are asked for.
        ({"preset": "balanced", "parallel": "multi_process"}, 6, 0,
         "machine: 6 cores, preset balanced wants 4"),
    ],
)  # fmt: skip
def test_loaders_are_chosen_by_the_machine(flags, cores, workers, why):
    resolved = resolve_config(None, flags, cores=cores)
    assert (resolved.config.workers, resolved.sources["workers"]) == (workers, why)


def test_cores_and_memory_are_those_of_the_machine_unless_told(monkeypatch):
    limited = dataclasses.replace(resolve.memory_limit(), amount=1 << 29)
    monkeypatch.setattr(resolve, "memory_limit", lambda: limited)
    monkeypatch.setattr(resolve, "count_cores", lambda: 3)
    config = resolve_config(None, {"preset": "balanced"}).config
    assert (config.workers, config.micro_batch) == (2, 8)
