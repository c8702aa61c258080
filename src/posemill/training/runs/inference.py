"""A trained run put to use: scores of a split, predictions for new clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from posemill.records import usual_split
from posemill.terminal import warn_caller
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.loaders import EpochLoader
from posemill.training.launch.start import load_model
from posemill.training.loop.distributed import World
from posemill.training.loop.evaluation import evaluate_split
from posemill.training.loop.precision import (
    Precision,
    bf16_made_ready,
    choose_device,
    choose_precision,
    cpu_has_fast_bf16,
    precision_of_run,
)
from posemill.training.runs.figure_predictions import PredictionPictures
from posemill.training.runs.run_folder import RunFolder
from posemill.training.tasks.building import describe_too_short, make_scored
from posemill.training.tasks.ctc_decoding import decode_beam, decode_greedy
from posemill.training.tasks.keypoint_kind import needed_skeleton
from posemill.training.tasks.kinds import kind_of_identity
from posemill.training.tasks.losses import build_loss
from posemill.training.tasks.workload import Workload

_TOP = 5


@dataclass(frozen=True)
class Prediction:
    """What a model says about one clip.

    Args:
        clip_id: The clip.
        label: The class, or the glosses with spaces between.
        probability: Of the class; None for glosses.
        top: The likeliest classes with their probabilities, the best first; empty for glosses.
    """

    clip_id: str
    label: str
    probability: float | None = None
    top: list[tuple[str, float]] = field(default_factory=list)

    def title(self) -> str:
        """Return the label, with its probability where it has one."""
        share = "" if self.probability is None else f" {self.probability:.0%}"
        return f"{self.label or 'nothing'}{share}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


def config_of(run: Path | str) -> TrainConfig:
    """Return the settings a run was trained with."""
    folder = RunFolder(run)
    folder.read_facts()
    config = TrainConfig(**read_config(folder.config_path))
    if config.cache_folder and not Path(config.cache_folder).resolve().is_relative_to(
        folder.path.resolve()
    ):
        # A run may be a stranger's: what it names outside of itself is not written to.
        config = config.replace(cache_folder="")
    return config


def head_of(run: Path | str) -> str:
    """Return the head of ctc that was chosen on dev; the usual one before a training has ended."""
    folder = RunFolder(run)
    is_finished = (folder.path / "summary.json").is_file()
    return (folder.read_summary().get("head") if is_finished else None) or "sequence"


def input_of(run: Path | str) -> str:
    """Return what a run's model takes: `keypoints` or `video`."""
    return kind_of_identity(RunFolder(run).read_facts()["identity"]).name


def data_of(run: Path | str) -> tuple[str, dict[str, Any]]:
    """Return (skeleton, recipe) that new clips must have for a run's model."""
    facts = RunFolder(run).read_facts()
    return needed_skeleton(facts, run), facts.get("recipe", {})


def evaluate(
    run: Path | str,
    *,
    split: str = "test",
    checkpoint: str = "best",
    device: str = "auto",
    data: str = "",
    labels: str = "",
) -> dict[str, Any]:
    """Return the scores of a run on a split of its data, or of other data of the same kind.

    Args:
        run: Folder that `train` wrote.
        split: Which clips.
        checkpoint: `best` or `last`.
        device: Where to compute.
        data: Other data than the run's own.
        labels: Their labels.
    """
    config, facts = config_of(run), RunFolder(run).read_facts()
    model = load_model(run, checkpoint=checkpoint)
    if data and data != config.data.path:  # nothing of other clips was ever set aside
        config = config.replace(data=data, dev_fraction=0.0, folds=0, fold=0, folds_by="",
                                leave_out="")  # fmt: skip
    config = config.replace(labels=labels or config.labels)
    config = config.replace(workers=0, parallel="single", processes=1)
    split = usual_split(split)
    kind = kind_of_identity(facts["identity"])
    clips = kind.load_sets(config, class_names=facts["class_names"], splits=[split])[split]
    is_training = split == config.data.training_split
    if sentence := describe_too_short(clips, split, is_training=is_training):
        warn_caller(sentence)
    head = head_of(run) if config.task == "ctc" else ""
    chosen = choose_device(device)
    # As it was trained, so that the numbers are those of the training, where this device can.
    with bf16_made_ready(facts["precision"], chosen):
        precision = _precision_here(facts["precision"], chosen)
        scored = make_scored(config.replace(precision=precision.name), clips, kind, head=head)
        workload = Workload(
            model=model.to(chosen),
            train=scored,
            val=None,
            forward=kind.make_forward(config),
            loss=build_loss(
                config.task, label_smoothing=config.label_smoothing, **config.loss_options
            ),
            identity=facts["identity"],
        )
        result = evaluate_split(
            workload,
            scored,
            EpochLoader(scored, config, World(), shuffle=False),
            device=chosen,
            precision=precision,
            world=World(),
        )
    scores = {name: value for name, value in result.scores.items() if name != "loss"}
    return {
        **scores,
        **{name: value for name, value in result.scores.items() if name == "loss"},
        "split": split,
        "num_clips": len(result.rows),
        **({"num_unreadable": unread} if (unread := len(clips) - len(result.rows)) else {}),
        **({"num_too_short": clips.num_too_short} if config.task == "ctc" else {}),
        "checkpoint": checkpoint,
        "precision": precision.name,
        "run": str(run),
        **({"head": head} if head else {}),
    }


def _precision_here(trained_in: str, device: torch.device) -> Precision:
    """Return the format that a run was trained in, or fp32 where this device has it not."""
    is_slow = trained_in == "bf16" and device.type == "cpu" and not cpu_has_fast_bf16()
    if is_slow or (trained_in == "fp16" and device.type == "cpu"):
        return choose_precision("fp32", device)
    precision = precision_of_run(trained_in, device, "as it was trained")
    if precision.name != trained_in:
        warn_caller(f"scored in fp32: {precision.reason}")
    return precision


def predict(
    run: Path | str,
    clips: Iterable[Any] | Path | str,
    *,
    device: str = "auto",
    pictures: PredictionPictures | None = None,
) -> Iterator[Prediction]:
    """Yield what a run's best model says about each clip.

    Args:
        run: Folder that `train` wrote.
        clips: `PoseClip`s of the run's skeleton or one that maps to it, shaped as the run's data
            was (`posemill predict` does that), or what `prepare` wrote; for a model of video
            paths of videos, of folders and lists of them, or of what `frames` wrote; for one of
            both pairs of a `PoseClip` and the path of its video.
        device: Where to compute.
        pictures: For a picture of each clip with what is said of it.
    """
    config, facts = config_of(run), RunFolder(run).read_facts()
    chosen = choose_device(device)
    model = load_model(run).to(chosen)
    identity, names = facts["identity"], facts["class_names"]
    kind = kind_of_identity(identity)
    forward = kind.make_forward(config)
    head = head_of(run)
    for clip in kind.new_clips(config.replace(out=str(run)), identity, clips):
        with torch.no_grad():
            output = forward(model, clip.batch.to(chosen))
        if config.task == "ctc":
            said = _read_glosses(clip.clip_id, output, names, (head, config))
        else:
            said = _read_class(clip.clip_id, output, names)
        if pictures is not None:
            pictures.draw(clip, said.title(), facts.get("skeleton_name"))
        yield said


def _read_class(clip_id: str, output: Any, names: list[str]) -> Prediction:
    chances = output.float().softmax(-1)[0].cpu()
    best = chances.topk(min(_TOP, len(names)))
    top = [
        (names[index], round(value, 6))
        for value, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return Prediction(clip_id, top[0][0], top[0][1], top)


def _read_glosses(
    clip_id: str, output: Any, names: list[str], how: tuple[str, TrainConfig]
) -> Prediction:
    head, config = how
    logits = output.conv_logits if head == "conv" else output.logits
    steps = int(output.lengths[0])
    log_probs = logits[0, :steps].float().log_softmax(-1).cpu().numpy()
    if config.ctc_decoder == "beam":
        found = decode_beam(log_probs, config.beam_width)
    else:
        found = decode_greedy(log_probs)
    return Prediction(clip_id, " ".join(names[index] for index in found))
