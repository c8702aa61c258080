"""`posemill doctor`: what will run where, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.cli.printing import print_json, print_lines, say
from posemill.language import word
from posemill.terminal import counted, quoted

if TYPE_CHECKING:
    from posemill.inspection.doctor import Diagnosis
    from posemill.machine.trials import Outcome
    from posemill.training.bf16 import Bf16Trial


def register(app: typer.Typer) -> None:
    """Add `doctor`."""
    app.command("doctor")(doctor)


def doctor(
    ray_address: Annotated[
        str,
        typer.Option(envvar="RAY_ADDRESS", help="A Ray cluster to look at: auto, host:port."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what will run where, and try what the processor promises. Exit 1 on a problem."""
    from posemill.inspection.doctor import diagnose
    from posemill.inspection.trials import try_libraries

    trial = _try_bf16()
    bf16 = {} if trial is None else {"bf16": trial.outcome}
    diagnosis = diagnose(ray_address, try_libraries() | bf16)
    if trial is not None and not trial.plain.works:
        diagnosis.warnings.append(_say_what_is_off(trial))
    if as_json:
        print_json(diagnosis.as_dict())
    else:
        _print_diagnosis(diagnosis)
    if diagnosis.problems:
        raise typer.Exit(1)


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
