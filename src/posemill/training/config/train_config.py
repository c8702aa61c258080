"""`TrainConfig`: every setting of a training, in groups. A flag of `posemill train` is a field.

The groups are in `data_settings` and `run_settings`. Nothing here imports torch: the command line,
the sweep and `--show-config` read it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posemill.errors import ConfigError
from posemill.places import uri_of
from posemill.settings import Settings
from posemill.training.config.data_settings import (
    USUAL_AUGMENTATION,
    AugmentationSettings,
    DataSettings,
    VideoSettings,
)
from posemill.training.config.kinds import absolute_data
from posemill.training.config.run_settings import (
    BatchWords,
    ModelSettings,
    MultigridOptions,
    OptimisationSettings,
    OutputSettings,
    SpeedSettings,
    preset_values,
)


class TrainConfig(Settings, command="train", words=BatchWords):
    """Every setting of a training, checked when it is made; the help of each is in its field.

    Settings lie in groups, in Python as in TOML, and each has a flat name that is its flag too:

        TrainConfig(data={"path": "input"}, optimisation={"lr": 2e-3})
        TrainConfig(data="input", lr=2e-3)            # the same
        config.optimisation.lr == config.lr           # read either way

    Flat names are the fields' own, but for `data` (`data.path`), `model` (`model.name`),
    `model_options` (`model.options`), `augment_rotate` … (`augmentation.rotate` …) and `video_size`
    … (`video.size` …). What is not given comes from the preset, for the kind of data. A
    configuration does not look at its data: who uses it does (`resolve.with_data_kind`), unless
    `data_kind` says what they are.
    """

    data: DataSettings
    model: ModelSettings
    augmentation: AugmentationSettings
    video: VideoSettings
    optimisation: OptimisationSettings
    speed: SpeedSettings
    output: OutputSettings

    if TYPE_CHECKING:  # groups, or any of their fields by flat name

        def __init__(self, **settings: Any) -> None: ...

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the preset says, for the kind of data, of fields that were not given."""
        preset, kind = (
            field.check(given.get(field.flat, field.default))
            for field in (cls.all_fields()["preset"], cls.all_fields()["data_kind"])
        )
        return preset_values(preset, kind=kind)

    @classmethod
    def settle(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was given, with `micro_batch` and `batch_size` for passes of a step."""
        words = cls.words
        rest = {name: value for name, value in given.items() if name not in words}
        if len(rest) == len(given):
            return given
        fields = {**cls.all_fields(), **words}
        names = ("micro_batch", "batch_size", "processes", *words)
        micro_batch, batch_size, processes, ims_per_gpu, steps = (
            fields[name].check(given[name]) if name in given else 0 for name in names
        )
        ranks, clips = max(1, processes), micro_batch or ims_per_gpu
        if batch_size and steps and not clips:
            clips = -(-batch_size // (steps * ranks))
        clips = clips or cls.preset_values(rest)["micro_batch"]
        if batch_size and steps and -(-batch_size // (clips * ranks)) != steps:
            raise ConfigError(
                "{--gradient-accumulation-steps:{steps}} of {clips} clips make a batch of "
                "{num_clips}, but {--batch-size:{batch_size}}: change one of them, for "
                "example {--micro-batch:{micro_batch}}",
                steps=steps,
                clips=clips,
                num_clips=steps * clips * ranks,
                batch_size=batch_size,
                micro_batch=-(-batch_size // (steps * ranks)),
            )
        batch = batch_size or (ims_per_gpu or clips) * (steps or 1) * ranks
        return {**rest, "micro_batch": clips, "batch_size": batch}

    def check(self) -> None:
        """Raise `ConfigError` where settings do not go together."""
        if (uri := uri_of(self.out)) is not None:
            raise ConfigError(
                "{--out}: a training is written to a disk of this machine, not {uri}; give a path",
                uri=uri,
            )
        try:
            MultigridOptions(**self.optimisation.multigrid_options)
        except ConfigError as error:
            raise ConfigError("{--multigrid-options}: {error}", error=error) from error
        scales = self.output.eval_scales
        if not all(0.25 <= scale <= 4 for scale in scales):
            raise ConfigError(
                "{--eval-scales}: expected shares from 0.25 to 4, got {scales}", scales=scales
            )
        if scales and self.data.task == "ctc":
            raise ConfigError(
                "{--eval-scales} averages one answer of a clip, and {--task:ctc} has many"
            )
        if self.optimisation.scheduler == "step" and not self.optimisation.step_epochs:
            raise ConfigError("{--scheduler:step} needs {--step-epochs}, for example [20, 35]")


def with_absolute_paths(config: TrainConfig) -> TrainConfig:
    """Return the settings with paths of data that are found from any folder."""
    named = {name: config.value(FIELDS[name]) for name in ("data", "labels", "cache_folder")}
    found = {name: absolute_data(value) for name, value in named.items() if value}
    return config.replace(**found)


def open_augmentation(config: TrainConfig) -> dict[str, float]:
    """Return the amounts that the user left open, by flat name.

    Glosses at the ends of a clip must not be cut off, and what is not centred cannot be turned.
    """
    is_usual = config.task == "classify" and config.normalize != "none"
    return {
        f"augment_{name}": amount if is_usual else 0.0
        for name, amount in USUAL_AUGMENTATION.items()
        if getattr(config.augmentation, name) is None
    }


FIELDS = TrainConfig.all_fields()
