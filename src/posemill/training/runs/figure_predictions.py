"""A picture of a new clip with what a model says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from posemill.errors import ConfigError
from posemill.files import atomic_path
from posemill.outputs import Outputs
from posemill.training.data.clips import Picture
from posemill.training.runs.figure_films import film_strip
from posemill.training.runs.figure_samples import draw_skeleton
from posemill.training.runs.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PredictionPictures:
    """The folder of the pictures; one is called like its clip.

    Args:
        folder: Where to. The pictures that are there are looked at now, before the work: each must
            be one that may be replaced.
        outputs: Says which may.
    """

    def __init__(self, folder: Path, outputs: Outputs) -> None:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(
                "{folder} is a file; expected a folder for {--pictures}", folder=folder
            )
        for path in sorted(folder.glob("*.png")):
            outputs.claim_file(path)
        self._folder, self._outputs = folder, outputs
        self._drawn: set[Path] = set()

    def draw(self, clip: Picture, title: str, skeleton_name: str | None = None) -> None:
        """Write the picture of a clip: frames of a video, or keypoints and the way of the hands.

        Args:
            clip: What the model looked at.
            title: What it said.
            skeleton_name: Of keypoints; None for points without names.
        """
        path = self._folder / f"{clip.clip_id.replace('/', '_')}.png"
        if path in self._drawn:
            raise ConfigError(
                "{path} is the picture of two clips; predict them one at a time, with two folders "
                "for {--pictures}",
                path=path,
            )
        self._drawn.add(path)
        self._folder.mkdir(parents=True, exist_ok=True)
        figure = _figure_of(clip, title, skeleton_name)
        with self._outputs.writing_file(path), atomic_path(path) as temporary:
            figure.savefig(temporary, format="png")


def _figure_of(clip: Picture, title: str, skeleton_name: str | None) -> Figure:
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
    return figure
