"""The files of trainings that never ran."""

import csv
import dataclasses
import json

from posemill.training.loop.timing import PARTS, Evidence


def write_training(folder, *, data="", steps=50, clip="b", label="yes"):
    """Write the files of a finished training."""
    folder.mkdir(parents=True)
    seconds = dict.fromkeys(PARTS, 0.0) | {"data": 80.0, "forward": 20.0}
    files = {
        "run.json": {"kind": "posemill-training", "identity": {"model": "mlp"}, "mode": "single"},
        "summary.json": {"steps": steps, "scores": {"dev": {"loss": 0.4, "accuracy": 0.75}}},
        "live.json": {"step": steps, "total_steps": steps, "epoch": 2, "epochs": 2, "best": 0.75,
                      "best_step": steps, "chosen_by": "accuracy", "pid": 1, "host": "h",
                      "started_at": "2026-11-16T20:00:00+00:00", "samples_per_second": 9.0},
        "timing.json": dataclasses.asdict(Evidence(seconds, cores=2)),
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "config.toml").write_text(f'[data]\npath = "{data}"\n[model]\nname = "mlp"\n')
    (folder / "log.txt").write_text("2026-11-16T20:00:00+00:00 start: pid 1\n")
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(10, steps + 1, 10):
            line = {"event": "train", "step": step, "epoch": 0, "loss": 5 / step, "lr": 0.001}
            file.write(json.dumps({**line, "samples_per_second": 9.0, "data_wait": 0.5}) + "\n")
        end = {"event": "eval", "step": steps, "epoch": 1, "loss": 0.4, "accuracy": 0.75}
        file.write(json.dumps(end) + "\n")
    rows = [("dev", "a", label, label, 0.9), ("dev", clip, label, "no", 0.6),
            ("dev", "d", "no", "no", 0.8), ("dev", "<b>", "no", "no", 0.7)]  # fmt: skip
    with (folder / "predictions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("split", "clip_id", "label", "predicted", "score"), *rows])
    return folder


def write_sweep(folder, changes, *, file="s.toml"):
    """Write what a sweep plans, a training for each change; return where the trainings go."""
    names = [f"{number:03d}-0123abcd" for number in range(len(changes))]
    trainings = [{"name": name, "changes": changes[int(name[:3])]} for name in names]
    sweep = {"kind": "posemill-sweep", "file": file, "workers": 1, "trainings": trainings}
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(sweep))
    return [folder / name / "run" for name in names]
