"""A picture of a new clip with what a model says of it."""

from __future__ import annotations

from pathlib import Path

from posemill.errors import ConfigError
from posemill.files import atomic_path
from posemill.training.runs.figure_films import film_strip
from posemill.training.runs.figure_samples import draw_skeleton
from posemill.training.runs.figures import new_figure
from posemill.training.tasks.kinds import NewClip


def draw_prediction(
    folder: Path, clip: NewClip, title: str, skeleton_name: str | None = None
) -> None:
    """Write the picture of a clip: frames of a video, or keypoints and the way of the hands.

    Args:
        folder: Where to; the file is called like the clip.
        clip: What the model looked at.
        title: What it said.
        skeleton_name: Of keypoints; None for points without names.
    """
    path = folder / f"{clip.clip_id.replace('/', '_')}.png"
    if path.exists():
        raise ConfigError(f"{path} is there already; choose another folder with --pictures")
    folder.mkdir(parents=True, exist_ok=True)
    if clip.frames is not None:
        strip = film_strip(clip.frames)
        figure = new_figure(10.8, 10.8 * strip.shape[0] / strip.shape[1] + 0.5)
        axes = figure.subplots()
        axes.imshow(strip)
    else:
        figure = new_figure(4.0, 4.4)
        axes = figure.subplots()
        assert clip.points is not None
        draw_skeleton(axes, *clip.points, skeleton_name)
    axes.axis("off")
    axes.set_title(f"{clip.clip_id}: {title}", fontsize=9)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
