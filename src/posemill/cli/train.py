"""`posemill train`, `evaluate`, `predict`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from posemill.cli.options import AsJson, Overwrite, ShowConfig, old_flags, with_config_flags
from posemill.cli.printing import (
    print_config,
    print_json,
    print_lines,
    print_table,
    say,
    warnings_as_notes,
)
from posemill.language import translate, word
from posemill.training.config.train_config import TrainConfig

# Its own flag has a value, and `--use-fp16` none.
MIXED = old_flags({"--use-fp16": "--precision=mixed", "--no-use-fp16": "--precision=fp32"})


def register(app: typer.Typer) -> None:
    """Add the commands of the training half."""
    command = MIXED(with_config_flags(train, TrainConfig))
    command.bare_flags = {"--tune": ("all", "speed", "none")}  # type: ignore[attr-defined]
    app.command("train")(command)
    app.command("evaluate")(evaluate)
    app.command("predict")(predict)


def train(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file; every flag below is a field of it.")
    ] = None,
    show_config: ShowConfig = False,
    as_json: AsJson = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Train a model on keypoints or video: one process or many; --resume continues after a kill."""
    # Before torch is loaded: waiting OpenMP threads sleep instead of spinning on shared cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from posemill.training.config.resolve import resolve_config
    from posemill.training.front import resolve_hardware
    from posemill.training.front import train as run_training
    from posemill.training.launch.torchrun import is_first_process, leave_at_once, under_torchrun

    resolved = resolve_config(config, flags)
    if show_config:
        print_config(resolve_hardware(resolved), as_json=as_json)
        return
    try:
        result = run_training(resolved)
    except KeyboardInterrupt:
        if is_first_process():
            _say_how_to_go_on(Path(resolved.config.out))
        raise
    if is_first_process() and as_json:
        print_json({"out": str(result.out), **result.summary})
    elif is_first_process() and "leave_out" in result.summary:
        _print_left_out(result.summary)
    elif is_first_process():
        _print_summary(result.out, result.summary)
    if under_torchrun():
        leave_at_once()


def _say_how_to_go_on(out: Path) -> None:
    """Say what an interrupt left: a checkpoint to continue from, or nothing."""
    from posemill.training.runs.status import read_train_status

    if not (out / "run.json").is_file():
        say(f"posemill: {out} had not begun: give the same command again", err=True)
        return
    status = read_train_status(out)
    step, command = status.checkpoint_step, status.next_command()
    if step is None:
        say(f"posemill: {out} has no checkpoint yet, it begins anew with: {command}", err=True)
    else:
        say(f"posemill: the checkpoint of step {step} is safe, go on with: {command}", err=True)


def _print_summary(out: Path, summary: Any) -> None:
    from posemill.training.tuning.advice import LEAST_SECONDS

    columns = list(dict.fromkeys(name for scores in summary["scores"].values() for name in scores))
    rows = [
        (split, *(f"{scores[name]:.4f}" if name in scores else "" for name in columns))
        for split, scores in summary["scores"].items()
    ]
    if rows:
        print_table(["split", *columns], rows)
    seconds = summary["timing_seconds"]
    total = sum(seconds.values()) or 1.0
    split = ", ".join(f"{word(part)} {value / total:.0%}" for part, value in seconds.items())
    is_long = total >= LEAST_SECONDS
    advice = summary["advice"] or (["nothing to change"] if is_long else [])
    print_lines(
        [
            ("run", out),
            ("steps", f"{summary['steps']}, best at {summary['best_step']}"),
            ("parallel", f"{summary['mode']}, {summary['processes']} x {summary['threads']} "
                         f"threads: {summary['mode_reason']}"),
            ("precision", f"{summary['precision']}: {translate(summary['precision_reason'])}"),
            ("speed", f"{summary['samples_per_second']:.0f} samples/s, {summary['seconds']:.1f} s"),
            ("time", split),
            *(("note", text) for text in summary["last_words"]),
            *(("advice", text) for text in advice),
        ]
    )  # fmt: skip


def _print_left_out(found: Any) -> None:
    """A row for each group that a model was trained without, then the mean and the worst."""
    score = found["score"]
    rows = [
        (row["group"], f"{row['clips_scored']} of {row['clips']}",
         f"{row[score]:.4f}" if score in row else "", row.get("run", ""))
        for row in found["groups"]
    ]  # fmt: skip
    rows.append(("mean", "", f"{found['mean']:.4f}", ""))
    rows.append(("worst", "", f"{found['worst']:.4f}", found["worst_group"]))
    print_table([f"without {found['leave_out']}", "clips scored", score, "run"], rows)


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder that `posemill train` wrote.")],
    split: Annotated[str, typer.Option(help="Which clips.")] = "test",
    *,
    checkpoint: Annotated[str, typer.Option(help="best or last.")] = "best",
    data: Annotated[str, typer.Option(help="Other data than the run's own.")] = "",
    labels: Annotated[str, typer.Option(help="Labels of that data.")] = "",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Score a trained model on a split."""
    from posemill.training.front import evaluate as run_evaluation

    with warnings_as_notes():
        scores = run_evaluation(
            run, split=split, checkpoint=checkpoint, data=data, labels=labels, device=device
        )
    if as_json:
        print_json(scores)
    else:
        print_lines(
            (name, f"{value:.4f}" if isinstance(value, float) else value)
            for name, value in scores.items()
        )
    if scores.get("num_unreadable"):
        raise typer.Exit(1)


def predict(
    run: Annotated[Path, typer.Argument(help="Folder that `posemill train` wrote.")],
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Videos, pictures, folders of them, runs, lists, or data `prepare` wrote.",
        ),
    ],
    *,
    device: Annotated[str, typer.Option(help="For the model: auto, cpu, cuda or cuda:N.")] = "auto",
    engine_device: Annotated[str, typer.Option(help="For the engine: cpu or cuda:N.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads of the engine.")] = 1,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Folder for a picture of each clip with what is said of it."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say what a trained model sees in clips; for one of keypoints the engine finds them first."""
    from posemill.api.predicting import predict as run_prediction

    with warnings_as_notes() as unread:
        found = run_prediction(
            run, sources, device=device, engine_device=engine_device, threads=threads,
            pictures=pictures, overwrite=overwrite,
        )  # fmt: skip
    if as_json:
        print_json([entry.to_dict() for entry in found])
    else:
        rows = [(p.clip_id, p.label, "" if p.probability is None else round(p.probability, 4))
                for p in found]  # fmt: skip
        print_table(["clip", "label", "probability"], rows)
    if unread:
        raise typer.Exit(1)
