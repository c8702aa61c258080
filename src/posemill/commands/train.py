"""`train`, `evaluate`, `predict`, `sweep`, `tune`, `advise`, `synthetic-corpus`: models."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from posemill.commands.arguments import AnyPath, run_of
from posemill.commands.declaring import AsJson, Ask, Command, Overwrite, ShowConfig
from posemill.commands.printing import (
    print_config,
    print_json,
    print_lines,
    print_records,
    print_table,
    say,
    shares_of,
    warnings_as_notes,
)
from posemill.commands.progress import show_progress, track
from posemill.commands.runs import advise
from posemill.errors import ConfigError, naming_the_extra
from posemill.files import folder_kind
from posemill.messages import Message, join
from posemill.outputs import Outputs
from posemill.settings import setting
from posemill.terminal import warn_caller
from posemill.training.config.kinds import KEYPOINTS, kind_of

if TYPE_CHECKING:
    from posemill.records import PoseClip
    from posemill.training.config.train_config import TrainConfig
    from posemill.training.tasks.task import Prediction

_PARALLEL = "{mode}, {processes} x {threads} threads: {mode_reason}"
_NOTHING = Message("nothing to change")
# Its own flag has a value, and `--use-fp16` none.
_MIXED = {"--use-fp16": "--precision=mixed", "--no-use-fp16": "--precision=fp32"}
_TRAIN_CONFIG = "posemill.training.config.train_config:TrainConfig"  # slow to import
TrainedRun = Annotated[
    AnyPath, setting("Folder that `posemill train` wrote.", metavar="RUN", argument=True)
]
ConfigFile = Annotated[
    AnyPath | None,
    setting("TOML file; every flag below is a field of it.", metavar="CONFIG", argument=True),
]


def show_train(
    config: ConfigFile = None,
    *,
    show_config: ShowConfig = False,
    as_json: AsJson = False,
    **settings: Annotated[Any, _TRAIN_CONFIG],
) -> None:
    """Train a model on keypoints or video: one process or many; --resume continues after a kill."""
    # Before torch is loaded: waiting OpenMP threads sleep instead of spinning on shared cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from posemill.machine.processes import is_first_process, leave_at_once, under_torchrun
    from posemill.training.config.resolve import resolve_config
    from posemill.training.front import train as run_training

    resolved = resolve_config(None if config is None else Path(config), settings)
    if show_config:
        with naming_the_extra():
            from posemill.training.tuning.modes import resolve_hardware
        print_config(resolve_hardware(resolved), as_json=as_json)
        return
    if not under_torchrun():  # whose processes fail together, once they have met
        _check_paths(resolved.config)
        _say_at_once(Message("loading torch and the data …"), as_json=as_json)
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


def _say_at_once(text: Message, *, as_json: bool) -> None:
    """Say where someone watches what is done while torch is loaded, which takes seconds."""
    if sys.stderr.isatty() and not as_json:
        say(text, err=True)


def _check_paths(config: TrainConfig) -> None:
    """Raise for a folder that is taken, or labels that are missing, before torch is loaded."""
    from posemill.training.data.annotations import expect_labels
    from posemill.training.record.run_folder import RunFolder

    is_one_run = not config.leave_out or "=" in config.leave_out
    if config.out and is_one_run:
        RunFolder(config.out).expect_free(resume=config.resume)
    if config.labels:
        expect_labels(Path(config.labels))


def _say_how_to_go_on(out: Path) -> None:
    """Say what an interrupt left: a checkpoint to continue from, or nothing."""
    from posemill.training.runs.status import read_train_status

    if not (out / "run.json").is_file():
        say("posemill: {run} had not begun: give the same command again", run=out, err=True)
        return
    status = read_train_status(out)
    say(
        "posemill: {run} has no checkpoint yet, it begins anew with: {command}"
        if status.checkpoint_step is None
        else "posemill: the checkpoint of step {step} is safe, go on with: {command}",
        run=out,
        step=status.checkpoint_step,
        command=status.next_command(),
        err=True,
    )


def _print_summary(out: Path, summary: Any) -> None:
    from posemill.training.loop.timing import shares
    from posemill.training.tuning.advice import LEAST_SECONDS

    print_records({"split": split, **scores} for split, scores in summary["scores"].items())
    seconds = summary["timing_seconds"]
    is_long = sum(seconds.values()) >= LEAST_SECONDS
    advice = summary["advice"] or ([_NOTHING] if is_long else [])
    print_lines(
        [
            ("run", out),
            ("steps", Message("{steps}, best at {best_step}", **summary)),
            ("parallel", Message(_PARALLEL, **summary)),
            ("precision", join(": ", [summary["precision"], summary["precision_reason"]])),
            ("speed", Message("{samples_per_second:.0f} samples/s, {seconds:.1f} s", **summary)),
            ("time", shares_of(shares(seconds), is_whole=True)),
            *(("note", text) for text in summary["last_words"]),
            *(("advice", text) for text in advice),
        ]
    )


def _print_left_out(result: Any) -> None:
    """A row for each group that a model was trained without, then the mean and the worst."""
    score = result["score"]
    template, rows = "{clips_scored} of {clips}", list[tuple[object, ...]]()
    for row in result["groups"]:
        scored = Message(template, **row)
        rows.append((row["group"], scored, _rounded(row.get(score, "")), row.get("run", "")))
    rows.append((Message("mean"), "", _rounded(result["mean"]), ""))
    rows.append((Message("worst"), "", _rounded(result["worst"]), result["worst_group"]))
    group = Message("without {group}", group=result["leave_out"])
    print_table([group, "clips scored", score, "run"], rows)


def _show_evaluate(ask: Ask, *, as_json: AsJson = False) -> int:
    """Score a trained model on a split."""
    _say_at_once(Message("loading the model and the data …"), as_json=as_json)
    with warnings_as_notes():
        scores = ask()
    if as_json:
        print_json(scores)
    else:
        print_lines((name, _rounded(value)) for name, value in scores.items())
    return 1 if scores.get("num_unreadable") else 0


def _rounded(value: Any) -> Any:
    return f"{value:.4f}" if isinstance(value, float) else value


def predict(
    run: TrainedRun,
    source: AnyPath | PoseClip | Iterable[AnyPath | PoseClip],
    *,
    device: Annotated[str, setting("For the model: auto, cpu, cuda or cuda:N.")] = "auto",
    engine_device: Annotated[str, setting("For the engine: cpu or cuda:N.")] = "cpu",
    threads: Annotated[int, setting("Threads of the engine.", least=1)] = 1,
    pictures: Annotated[
        AnyPath | None, setting("Folder for a picture of each clip with its prediction.")
    ] = None,
    overwrite: Overwrite = False,
    model: Any = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Predict the labels of clips with a trained model; keypoints are found first if needed.

    `source` is a video, a folder of pictures or of videos, a run, or data that `prepare` wrote (a
    model of video: a list of videos, or what `frames` wrote); or several of these; `PoseClip`s too,
    which must be shaped as the model's data was. What cannot be read is warned about. Each entry
    of the result is a `Prediction`, in the order of the clips.

    Of a run of `fit`, `source` is a data set or a loader, `model` one of the same class and sizes,
    which gets the weights, `collate_fn` and `forward` are those that `fit` was given, and the
    entries are what the model returns. `progress` is bars on a terminal or a line in a notebook;
    False for none.
    """
    from posemill.records import PoseClip

    with naming_the_extra():
        from posemill.training.launch.fit import predict as predict_samples
        from posemill.training.record.run_folder import RunFolder
        from posemill.training.runs.figure_samples import PredictionPictures
        from posemill.training.runs.inference import input_of, predict_clips
    folder = Path(run)
    if RunFolder(folder).is_of_fit():
        if pictures is not None:
            raise ConfigError(
                "{folder} was trained by fit(): only predictions of runs of train() are drawn; "
                "leave {--pictures} out",
                folder=folder,
            )
        outputs_of_model = predict_samples(
            folder, model, source, collate_fn=collate_fn, forward=forward, device=device
        )
        return list(outputs_of_model)
    if model is not None:
        raise ConfigError(
            "{folder} was trained by train() and says itself what its model is: leave {--model} "
            "out",
            folder=folder,
        )
    items = [source] if isinstance(source, str | os.PathLike | PoseClip) else source
    drawn = None
    if pictures is not None:
        outputs = Outputs(folder, *_paths_of(source), overwrite=overwrite)
        drawn = PredictionPictures(Path(pictures), outputs)
    ask = partial(predict_clips, folder, device=device, pictures=drawn)
    kind = input_of(folder)
    if kind not in ("keypoints", "two_streams"):  # whose keypoints may have to be found first
        return list(track(ask(items), "clips", progress=progress))
    is_alone = isinstance(items, list | tuple) and len(items) == 1
    engine = {"device": engine_device, "threads": threads, "is_alone": is_alone}
    total = _frames_to_estimate(folder, items)
    if kind == "two_streams":
        with show_progress("frames", total, progress=progress) as advance:
            return list(ask(_with_videos(folder, items, {**engine, "on_frame": advance})))
    found: list[Prediction] = []
    for is_ready, group in groupby(items, key=_is_prepared):
        if is_ready:
            for item in group:
                found += track(ask(Path(str(item))), "clips", progress=progress)
        else:
            # One call for all of them: the model is loaded once.
            with show_progress("frames", total, progress=progress) as advance:
                found += ask(_estimated(folder, group, {**engine, "on_frame": advance}))
    return found


def _frames_to_estimate(folder: Path, items: Iterable[AnyPath | PoseClip]) -> int | None:
    """Return how many frames keypoints will be found of; None where only reading would tell."""
    from posemill.jobs.landmarks import count_new_frames
    from posemill.training.runs.inference import data_of

    if not isinstance(items, list | tuple):
        return None
    paths = (Path(item) for item in items if isinstance(item, str | os.PathLike))
    new_paths = (path for path in paths if not _is_prepared(path))
    return sum(count_new_frames(path, data_of(folder)[1]) for path in new_paths)


def _paths_of(source: AnyPath | PoseClip | Iterable[AnyPath | PoseClip]) -> list[AnyPath]:
    """Return what tells a source from another; clips in memory have no path and are never alike."""
    items = source if isinstance(source, list | tuple) else [source]
    paths = [item for item in items if isinstance(item, str | os.PathLike)]
    return paths if len(paths) == len(items) else [uuid4().hex]


def _with_videos(
    folder: Path, items: Iterable[AnyPath | PoseClip], engine: Mapping[str, Any]
) -> Iterator[tuple[PoseClip, str]]:
    """Yield the keypoints of each video and its path, for a model of both."""
    from posemill.records import PoseClip
    from posemill.training.tasks.video_kind import clips_at

    for item in items:
        if isinstance(item, PoseClip):
            raise ConfigError(
                "{folder} was trained on keypoints and video: expected videos, got a PoseClip",
                folder=folder,
            )
        videos = clips_at(Path(item))
        is_alone = engine["is_alone"] and len(videos) == 1
        for video in videos:
            for clip in _estimated(folder, [video.path], {**engine, "is_alone": is_alone}):
                yield dataclasses.replace(clip, clip_id=video.clip_id), video.path


def _estimated(
    folder: Path, items: Iterable[AnyPath | PoseClip], engine: Mapping[str, Any]
) -> Iterator[PoseClip]:
    """Yield clips as they are, and those of sources as a run's model needs them."""
    from posemill.jobs.landmarks import clips_like
    from posemill.records import PoseClip
    from posemill.training.runs.inference import data_of

    for item in items:
        if isinstance(item, PoseClip):
            yield item
            continue
        for clip, errors in clips_like(Path(item), *data_of(folder), **engine):
            for error in errors:
                warn_caller(error.sentence)
            if clip is not None:
                yield clip


def _is_prepared(item: AnyPath | PoseClip) -> bool:
    """Return True for npz and csv files of keypoints, and folders of them."""
    if not isinstance(item, str | os.PathLike):
        return False
    path = Path(item)
    is_file = path.suffix.lower() in (".npz", ".csv") and kind_of(str(path)) == KEYPOINTS
    return is_file or folder_kind(path) == "prepared"


def _show_predict(
    ask: Ask,
    sources: Annotated[
        Sequence[AnyPath],
        setting(
            "Videos, pictures, folders of them, runs, lists, or data `prepare` wrote.",
            metavar="SOURCE...",
            argument=True,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> int:
    _say_at_once(Message("loading the model …"), as_json=as_json)
    with warnings_as_notes() as unread:
        predictions = ask(source=[Path(source) for source in sources], progress=True)
    if as_json:
        print_json(predictions)
    else:
        rows = [
            (p.clip_id, p.label, "" if p.probability is None else round(p.probability, 4))
            for p in predictions
        ]
        print_table(["clip", "label", "probability"], rows)
    return 1 if unread else 0


def sweep(
    file: Annotated[AnyPath, setting("TOML file with grid, random or folds.", argument=True)],
    *,
    workers: Annotated[int, setting("Number of parallel trainings.", least=1)] = 1,
    out: Annotated[str, setting("Folder; the file's own by default.")] = "",
    dry_run: Annotated[bool, setting("Only list the trainings.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run independent trainings side by side; the same command again continues them."""
    from posemill.training.launch.sweep import read_sweep, summarize, tabulate
    from posemill.training.launch.sweep_runner import run_sweep

    def report(event: str, job: Any) -> None:
        say("{job} {event}", job=job.name, event=Message(event), err=True)

    plan = read_sweep(Path(file), out=out)
    failures = {} if dry_run else run_sweep(plan, num_jobs=workers, report=report)
    rows, means = tabulate(plan, failures), summarize(plan)
    if as_json:
        print_json({"trainings": rows, "means": means})
    else:
        print_records(rows)
        if len(means) < sum(row["state"] == "done" for row in rows):
            print_records(means)
    return 1 if failures else 0


def _show_tune(ask: Ask, *, as_json: AsJson = False) -> None:
    """Measure what makes a training faster on this machine."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is loaded, as train does
    _say_at_once(Message("loading torch and the data …"), as_json=as_json)
    tuned, out = ask(), ask.keywords.get("out")
    if as_json:
        print_json({"out": out, **tuned.to_json()})
        return
    rows = []
    for row in tuned.rows:
        speed = "" if row.samples_per_second is None else f"{row.samples_per_second:.0f}"
        rows.append((row.setting, speed, "" if row.gain is None else f"{row.gain:.2f}", row.note))
    print_table(["setting", "samples/s", "gain", ""], rows)
    for line in tuned.lines():
        say(line)
    if out is not None:
        say("{path}: posemill train {path!q} --out runs/NAME trains with it", path=out)


def _show_advise(ask: Ask, *, as_json: AsJson = False) -> None:
    from posemill.training.loop.timing import read_evidence, shares
    from posemill.training.tuning.advice import LEAST_SECONDS

    run, advice = ask.keywords["run"], ask()
    evidence = read_evidence(run_of(run))
    if as_json:
        print_json({"run": run, **dataclasses.asdict(evidence), "advice": advice})
        return
    lines: list[tuple[str, object]] = [("run", run)]
    lines.append(("time", shares_of(shares(evidence.timing_seconds), is_whole=True)))
    if evidence.seconds < LEAST_SECONDS:
        template = "only {seconds:.0f} s were measured: too short to rely on"
        lines.append(("note", Message(template, seconds=evidence.seconds)))
    sentences = [each.sentence for each in advice] or [_NOTHING]
    print_lines([*lines, *(("advice", text) for text in sentences)])


def synthetic_corpus(
    out: Annotated[AnyPath, setting("Folder to write.", argument=True)],
    *,
    glosses: Annotated[int, setting("Size of the vocabulary.", least=2)] = 80,
    train: Annotated[
        int, setting("Training clips; dev and test get 2 for every 15 of them.", least=1)
    ] = 600,
    seed: Annotated[int, setting("Decides everything.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Write a made-up gloss corpus in PHOENIX layout, to try CTC training on."""
    from posemill.testing.synthetic import CorpusOptions, write_corpus

    few = max(2, train * 2 // 15)
    options = CorpusOptions(glosses, {"train": train, "dev": few, "test": few}, seed=seed)
    for split, count in write_corpus(Path(out), options, overwrite=overwrite).items():
        say("{split}  {num_clips:clip|clips}", split=split, num_clips=count)


COMMANDS = (
    Command("train", show_train, aliases=_MIXED),
    Command("evaluate", "posemill.training.front:evaluate", _show_evaluate),
    Command("predict", predict, _show_predict),
    Command("sweep", sweep, aliases={"--jobs": "--workers"}),
    Command("tune", "posemill.training.front:tune", _show_tune, skip=("tune",), aliases=_MIXED),
    Command("advise", advise, _show_advise),
    Command("synthetic-corpus", synthetic_corpus),
)
