"""Settings that were given and change nothing, each with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from posemill.messages import Message
from posemill.provenance import describe_unused
from posemill.training.config.kinds import AUTO, KEYPOINTS, OWN, TWO_STREAMS, VIDEO
from posemill.training.config.train_config import FIELDS, TrainConfig


def _in_groups(*groups: str) -> list[str]:
    return [name for name, field in FIELDS.items() if field.group in groups]


_OWN = _in_groups("data", "model", "augmentation", "video")
_OF_VIDEO = _in_groups("video")
_OF_CSV, _OF_GLOSSES = ("csv_dims", "csv_frames"), ("ctc_decoder", "beam_width", "short_clips")
_OF_KEYPOINTS = (
    *("unit", "skeleton", "normalize", "num_dims", "num_frames", "max_frames"),
    *_OF_CSV,
    *_in_groups("augmentation"),
)
_OF_OPTIMIZER = (
    *("lr", "optimizer", "weight_decay", "momentum", "scheduler", "warmup_epochs", "final_lr"),
    *("step_epochs", "step_gamma", "plateau_patience"),
)


def unused_settings(
    config: TrainConfig,
    *,
    has_dev: bool,
    planned: TrainConfig | None = None,
    has_gpu: bool = False,
    typed: Collection[str] = (),
    is_own: bool = False,
    has_own_optimizer: bool = False,
) -> list[str]:
    """Return a sentence for each setting that was given and has no effect.

    Args:
        config: As it was given; what a preset or a default says is named only where it is `typed`.
        has_dev: Whether there is a split that picks the best checkpoint.
        planned: With all decided that the training decides; the same where None.
        has_gpu: Whether the training is on one.
        typed: Settings that are named even if they are their default.
        is_own: Whether data and model are the user's own (`fit`).
        has_own_optimizer: Whether the optimizer is, too.
    """
    reasons = dict(_reasons(config))
    reasons |= _reasons_of_speed(config, planned or config, has_gpu=has_gpu)
    if is_own:
        reasons |= dict.fromkeys(_OWN, Message("fit() is given its data and its model"))
    if has_own_optimizer:
        reasons |= dict.fromkeys(_OF_OPTIMIZER, Message("fit() is given its optimizer"))
    if not has_dev:
        reasons["patience"] = Message("there is no dev split to stop by")
        if config.scheduler == "plateau":
            reasons["scheduler"] = Message("there is no dev split whose score could stand still")
    return describe_unused(config, reasons, typed=typed)


def _reasons(config: TrainConfig) -> Iterator[tuple[str, str]]:
    scheduler, data, decoder = config.scheduler, config.data, config.model.ctc_decoder
    is_ctc, is_video = data.task == "ctc", data.kind == VIDEO
    is_one_kind = data.kind not in (AUTO, OWN, TWO_STREAMS)
    is_other_cache = is_video and data.cache in ("ram", "hdf5") and not config.video.precompute
    of_kind = Message("the data is {kind}", kind=data.kind)
    of_scheduler = Message("scheduler is {scheduler}", scheduler=scheduler)
    no_momentum = Message("optimizer {optimizer} has none", optimizer=config.optimizer)
    of_decoder = Message("ctc_decoder is {decoder}", decoder=decoder)
    one_size = Message("only video is evaluated at several sizes; {--eval-every} says how often")
    rules = (
        (is_one_kind and not is_video, _OF_VIDEO, of_kind),
        (is_one_kind and data.kind != KEYPOINTS, _OF_KEYPOINTS, of_kind),
        (is_other_cache, ["cache"], Message("decoded frames are kept on the disk, as mmap")),
        (config.optimizer != "sgd", ["momentum"], no_momentum),
        (scheduler != "step", ["step_epochs"], of_scheduler),
        (scheduler not in ("step", "plateau"), ["step_gamma"], of_scheduler),
        (scheduler != "plateau", ["plateau_patience"], of_scheduler),
        (scheduler in ("constant", "step", "plateau"), ["final_lr"], of_scheduler),
        (is_ctc, ["label_smoothing"], Message("task ctc has no use for it")),
        (decoder != "beam", ["beam_width"], of_decoder),
        (not is_ctc, _OF_GLOSSES, Message("task classify has no glosses")),
        (not data.folds, ["fold", "folds_by"], Message("folds is 0")),
        (not is_video, ["eval_scales"], one_size),
        (data.cache == "none", ["cache_folder"], Message("cache is none")),
        (not data.path.endswith(".csv"), _OF_CSV, Message("the data is not a CSV")),
    )
    for is_unused, names, reason in rules:
        if is_unused:
            yield from ((name, reason) for name in names)


def _reasons_of_speed(
    config: TrainConfig, planned: TrainConfig, *, has_gpu: bool
) -> Iterator[tuple[str, str]]:
    mode = Message("parallel is {parallel}", parallel=planned.parallel)
    if planned.parallel in ("single", "multi_thread"):
        yield "processes", Message("{mode}; {--parallel:multi_process} takes them", mode=mode)
    if config.threads and planned.threads != config.threads:
        yield "threads", Message("{mode}; {--parallel:multi_thread} takes them", mode=mode)
    no_loader = Message("there is no loader process")
    if planned.workers == 0:
        yield "persistent_workers", no_loader
        if planned.parallel != "multi_thread" and not has_gpu:
            yield "prefetch_factor", no_loader
    if not has_gpu:
        yield "pin_memory", Message("there is no GPU")
