"""`posemill landmarks`: one source, straight to a file of landmarks."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from posemill.cli.options import AsJson, Overwrite, old_flags, parse_options
from posemill.cli.printing import print_json, print_table, say
from posemill.language import word
from posemill.skeletons.palette import part_label


class Mode(str, Enum):
    """How frames belong together."""

    image = "image"
    video = "video"


def register(app: typer.Typer) -> None:
    """Add `landmarks`."""
    app.command("landmarks")(landmarks)


@old_flags({"--runtime": "--engine-option runtime="})
def landmarks(
    source: Annotated[Path, typer.Argument(help="A folder of pictures, a picture, or a video.")],
    *,
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    engine: Annotated[
        str, typer.Option(help="What finds them. {posemill.estimators:known_engines}")
    ] = "holistic",
    engine_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the engine.")
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="image: frames stand alone; video: they are tracked and smoothed. Without it: "
            "videos are tracked, and folders whose pictures look like one; it is said."
        ),
    ] = None,
    decoder: Annotated[
        str, typer.Option(help="What reads videos. {posemill.decoders:decoder_choices}")
    ] = "pyav",
    device: Annotated[str, typer.Option(help="cpu, cuda:N or tensorrt:N.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads inside the networks.")] = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Find the keypoints of one clip or folder, without making a run."""
    from posemill.api.landmarking import find_landmarks

    clip, chosen, why, errors = find_landmarks(
        source, out, mode=None if mode is None else mode.value, engine=engine,
        engine_options=parse_options(engine_option or []), decoder=decoder, device=device,
        threads=threads, overwrite=overwrite, progress=None,
    )  # fmt: skip
    found = dict(zip(clip.skeleton.part_names, clip.present.sum(0).tolist(), strict=True))
    if why:
        say(f"mode {chosen}: {why}; --mode overrules it", err=True)
    summary = {
        "mode": chosen,
        "frames": len(clip),
        "found": found,
        "failed": [str(error) for error in errors],
    }
    if as_json:
        print_json({"out": str(out), **summary})
    else:
        rows = [(word(part_label(name)), number, len(clip)) for name, number in found.items()]
        print_table(["part", "frames found", "of"], rows)
        say(f"{out}")
    for error in errors:
        say(f"posemill: {error}", err=True, colour="red")
    if errors:
        raise typer.Exit(1)
