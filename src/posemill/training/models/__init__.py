"""The models by name. Each takes keypoints or frames of video; each is one file to read.

A new model is one file and one row in `MODELS`; another package's is an entry point of the group
`posemill.models`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from posemill import plugins
from posemill.errors import ConfigError

if TYPE_CHECKING:  # torch, which the names of the models do not need
    from posemill.training.models.base import Model
    from posemill.training.models.keypoints.base import KeypointModel, ModelShape
    from posemill.training.models.two_streams import TwoStreams
    from posemill.training.models.video.base import VideoModel, VideoShape

KEYPOINT_MODELS = {
    "mlp": "posemill.training.models.keypoints.sequence:Mlp",
    "tcn_bilstm": "posemill.training.models.keypoints.sequence:TcnBilstm",
    "stgcn": "posemill.training.models.keypoints.stgcn:Stgcn",
    "transformer": "posemill.training.models.keypoints.sequence:Transformer",
}
VIDEO_MODELS = {
    "tsn": "posemill.training.models.video.frames:Tsn",
    "tsm": "posemill.training.models.video.frames:Tsm",
    "slowfast": "posemill.training.models.video.space_time:SlowFast",
    "r2plus1d": "posemill.training.models.video.space_time:R2plus1d",
}
BOTH_MODELS = {"two_streams": "posemill.training.models.two_streams:TwoStreams"}
MODELS = {**KEYPOINT_MODELS, **VIDEO_MODELS, **BOTH_MODELS}


def build_model(
    name: str,
    *,
    num_points: int,
    num_dims: int,
    num_classes: int,
    task: str = "classify",
    skeleton_name: str | None = None,
    **options: Any,
) -> KeypointModel:
    """Return a new model of keypoints with random weights.

    Args:
        name: One of `KEYPOINT_MODELS`.
        num_points: Points of a frame.
        num_dims: Numbers of a point.
        num_classes: Classes, or glosses with blank and unknown.
        task: `classify` or `ctc`.
        skeleton_name: One of ours, or None: then no bones and one group of points.
        options: The model's own settings; see its class.
    """
    from posemill.training.models.keypoints.base import ModelShape

    shape = ModelShape(num_points, num_dims, num_classes, task, skeleton_name)
    model: KeypointModel = _build(name, "keypoints", shape, options)
    return model


def build_video_model(
    name: str,
    *,
    num_classes: int,
    task: str = "classify",
    num_frames: int = 0,
    is_pretrained: bool = True,
    **options: Any,
) -> VideoModel:
    """Return a new model of video; its weights are random, those of some backbones learned.

    Args:
        name: One of `VIDEO_MODELS`.
        num_classes: Classes, or glosses with blank and unknown.
        task: `classify` or `ctc`.
        num_frames: Frames of every clip; 0 where clips differ.
        is_pretrained: Fetch the weights that its options name. False where all weights of a
            trained model come in anyway: nothing is fetched.
        options: The model's own settings; see its class.
    """
    from posemill.training.models.video.base import VideoShape

    shape = VideoShape(num_classes, task, num_frames)
    model: VideoModel = _build(name, "video", shape, options)
    if is_pretrained:
        model.load_pretrained()
    return model


def build_two_streams(
    name: str, keypoints: ModelShape, video: VideoShape, **options: Any
) -> TwoStreams:
    """Return a new model of keypoints and video, nothing fetched.

    Args:
        name: One of `BOTH_MODELS`.
        keypoints: Sizes of the one input.
        video: Sizes of the other.
        options: The model's own settings; see its class.
    """
    from posemill.training.models.two_streams import TwoStreamShape

    model: TwoStreams = _build(name, "two_streams", TwoStreamShape(keypoints, video), options)
    return model


_TABLES = {"keypoints": KEYPOINT_MODELS, "video": VIDEO_MODELS, "two_streams": BOTH_MODELS}


def models_of(takes: str) -> list[str]:
    """Return the names of our models that take this kind of data."""
    return list(_TABLES.get(takes, ()))


def input_of(name: str) -> str:
    """Return the kind of data that a model takes; torch is imported for others' models."""
    for takes, table in _TABLES.items():
        if name in table:
            return takes
    return _find(name).takes


def known_models() -> list[str]:
    """Return the names of `MODELS` and of other packages' models."""
    return plugins.names_of("model", MODELS)


def time_stride_of(name: str, **options: Any) -> int:
    """Return how many frames one output step of a model stands for, without building it."""
    kind = _find(name)
    _check_options(name, kind, options)
    return kind.stride_of(**options)


def _find(name: str) -> type[Model]:
    found: type[Model] = plugins.load("model", MODELS, name, extra="train")
    return found


def _build(name: str, takes: str, shape: Any, options: dict[str, Any]) -> Any:
    kind = _find(name)
    if kind.takes != takes:
        raise ConfigError(
            "model {name} takes {model_takes}, and the data is {takes}",
            name=name,
            model_takes=kind.takes,
            takes=takes,
        )
    _check_options(name, kind, options)
    return kind(shape, **options)


def _check_options(name: str, kind: type[Model], options: dict[str, Any]) -> None:
    known = _options_of(kind)
    for option in options:
        if option not in known:
            raise ConfigError(
                "model {name} has no option {option!r}; it has {known}{hint}",
                name=name,
                option=option,
                known=", ".join(known),
                hint=plugins.hint(option, known),
            )


def _options_of(kind: type[Model]) -> list[str]:
    """Return the keywords of a model, and of what it is made from where it hands others on."""
    found: list[str] = []
    for part in kind.__mro__:
        if "__init__" in vars(part):
            parameters = inspect.signature(part).parameters.values()
            found += [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
            if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters):
                break
    return found
