"""Settings that were given and change nothing, each with the reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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

    What a preset or a default says is named only where it is `typed`. `planned` is the
    configuration with all decided that the training decides, `is_own` says that data and model are
    the user's (`fit`).
    """
    planned = planned or config
    mode = Message("parallel is {parallel}", parallel=planned.parallel)
    of_processes = Message("{mode}; {--parallel:multi_process} takes them", mode=mode)
    of_threads = Message("{mode}; {--parallel:multi_thread} takes them", mode=mode)
    is_one_process = planned.parallel in ("single", "multi_thread")
    has_fewer_threads = config.threads and planned.threads != config.threads
    no_loader, has_loader = Message("there is no loader process"), planned.workers != 0
    is_ahead = has_loader or planned.parallel == "multi_thread" or has_gpu
    no_plateau = Message("there is no dev split whose score could stand still")
    rules = (
        *_rules(config),
        (is_one_process and config.processes != 1, ["processes"], of_processes),
        (has_fewer_threads, ["threads"], of_threads),
        (not has_loader, ["persistent_workers"], no_loader),
        (not is_ahead, ["prefetch_factor"], no_loader),
        (not has_gpu, ["pin_memory"], Message("there is no GPU")),
        (is_own, _OWN, Message("fit() is given its data and its model")),
        (has_own_optimizer, _OF_OPTIMIZER, Message("fit() is given its optimizer")),
        (not has_dev, ["patience"], Message("there is no dev split to stop by")),
        (not has_dev and config.scheduler == "plateau", ["scheduler"], no_plateau),
    )
    reasons = {name: reason for is_unused, names, reason in rules if is_unused for name in names}
    return describe_unused(config, reasons, typed=typed)


def _rules(config: TrainConfig) -> tuple[tuple[bool, Sequence[str], str], ...]:
    """Return whether settings have no effect, their names, and why, by the settings alone."""
    scheduler, data, decoder = config.scheduler, config.data, config.model.ctc_decoder
    is_ctc, is_video = data.task == "ctc", data.kind == VIDEO
    is_one_kind = data.kind not in (AUTO, OWN, TWO_STREAMS)
    is_other_cache = is_video and data.cache in ("ram", "hdf5") and not config.video.precompute
    of_kind = Message("the data is {kind}", kind=data.kind)
    of_scheduler = Message("scheduler is {scheduler}", scheduler=scheduler)
    no_momentum = Message("optimizer {optimizer} has none", optimizer=config.optimizer)
    of_decoder = Message("ctc_decoder is {decoder}", decoder=decoder)
    one_size = Message("only video is evaluated at several sizes; {--eval-every} says how often")
    return (
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
