"""`posemill demo`: the main job on a real clip, by the commands a user would type."""

from __future__ import annotations

import csv
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from posemill.cli.options import Overwrite
from posemill.cli.printing import print_table, say
from posemill.language import word
from posemill.outputs import Outputs

# Real people out of published wheels: a man on the phone, one who jumps, and an astronaut.
_MEDIA = {"carphone": "clip", "jumper": "clip", "astronaut": "picture"}


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes.")] = Path("demo"),
    *,
    overwrite: Overwrite = False,
) -> None:
    """Run the main job on a real clip and a real picture; say where the results are."""
    source, run, pictures = out / "clips.csv", out / "run", out / "pictures"
    outputs = Outputs(out, overwrite=overwrite)
    for path in (source, out / "presence.csv"):
        outputs.claim_file(path)
    _write_source(source, outputs)
    _run_command("extract", source, "--out", run)
    replace = ["--overwrite"] if overwrite else []
    _run_command("visualize", run, "--num-samples", "6", "--out", pictures, *replace)
    rows = list(_presence(run))
    with outputs.writing_file(out / "presence.csv"):
        _write_table(out / "presence.csv", rows)
    print_table([name.replace("_", " ") for name in rows[0]], [tuple(row.values()) for row in rows])
    say(f"\nkeypoints  {run}  (Parquet; in Python: posemill.open_run({str(run)!r}))")
    say(f"table      {out / 'presence.csv'}  (share of frames in which a part was found)")
    for picture in (pictures / "clip_contact_sheet.png", *sorted(pictures.glob("picture/*.png"))):
        say(f"{word('picture'):9}  {picture}")


def _write_source(path: Path, outputs: Outputs) -> None:
    """Put the media beside a list that names them."""
    from posemill.files import atomic_path
    from posemill.weights.pull import ensure_media

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["path,clip_id,split"]
    for name, split in _MEDIA.items():
        cached = ensure_media(name)
        target = path.parent / f"{name}{cached.suffix}"
        if not target.exists():  # untouched at the second time: the run goes by its times
            with atomic_path(target) as temporary:
                shutil.copyfile(cached, temporary)
        lines.append(f"{target.name},{name},{split}")
    with outputs.writing_file(path), atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run_command(*arguments: str | Path) -> None:
    """Show a command and run it, in this process."""
    from posemill.cli.app import build_app

    words = [str(argument) for argument in arguments]
    say(f"$ posemill {shlex.join(words)}", bold=True)
    code = build_app()(args=words, prog_name="posemill", standalone_mode=False)
    if code:
        raise typer.Exit(int(code))


def _presence(run: Path) -> Iterator[dict[str, str | int]]:
    """Yield a row per clip: its frames, and the share of them each part was found in."""
    from posemill.stores.reader import open_run

    for clip in open_run(run).clips():
        shares = clip.present.mean(0) if len(clip) else [0.0] * len(clip.skeleton.parts)
        yield {
            "clip": clip.clip_id,
            "frames": len(clip),
            **{
                name: f"{share:.3f}"
                for name, share in zip(clip.skeleton.part_names, shares, strict=True)
            },
        }


def _write_table(path: Path, rows: list[dict[str, str | int]]) -> None:
    from posemill.files import atomic_path

    with atomic_path(path) as temporary, temporary.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
