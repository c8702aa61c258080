"""How well models do on people they never saw, and on sets that have a test split.

    python -m benchmarks.training.unseen_people --data all.npz --labels labels.csv --group signer
        [--models tcn_bilstm stgcn] [--seeds 0 1 2] [--epochs 40]
        [--tested signs48=data/signs48,data/signs48/labels.csv]
        [--tested 'jhmdb=data/jhmdb_gt/split1_{split}.npz' 'jhmdb=data/…'] [--json]

Any npz of `posemill train` will do, with a column of the labels (or an array of the npz) that says
whose a clip is: `posemill train --leave-out` trains once for each person, without them. A row is
the mean over people, between the worst and the best of them; of a tested set it is the mean over
the files of its name. With several seeds each number is the mean of theirs. Not in `make bench`:
it measures data of yours.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.shared.measuring import Measured, make_parser, report, say
from posemill.training.config.train_config import TrainConfig
from posemill.training.front import train

Scores = dict[str, list[float]]


def on_unseen(settings: dict[str, Any], group: str, folder: Path) -> dict[str, float]:
    """Return the accuracy (or word error rate) on each person by a model trained without them."""
    found = train(**settings, leave_out=group, out=str(folder / "people")).summary
    return {row["group"]: row[found["score"]] for row in found["groups"] if found["score"] in row}


def on_tested(settings: dict[str, Any], tested: Sequence[str], folder: Path) -> dict[str, float]:
    """Return the test accuracy of each `NAME=DATA[,LABELS]`, a number behind names that repeat."""
    scores = {}
    for number, text in enumerate(tested):
        name, _, place = text.partition("=")
        data, _, labels = place.partition(",")
        given = settings | {"data": data, "labels": labels, "figures": False}
        result = train(**given, out=str(folder / f"tested{number}"))
        scores[f"{name} {number}"] = result.scores["test"]["accuracy"]
    return scores


def summarize(name: str, scores: Scores) -> Measured:
    """Return the mean over people or files, each the mean of its seeds, and tell each of them."""
    means = {each: statistics.fmean(values) for each, values in scores.items()}
    for each, value in means.items():
        say(f"{name:24} {each:16} {value:.3f}  ({', '.join(f'{v:.3f}' for v in scores[each])})")
    worst = min(means, key=lambda each: means[each])
    return Measured(statistics.fmean(means.values()), means[worst], max(means.values()),
                    f"worst: {worst}")  # fmt: skip


def measure(model: str, options: argparse.Namespace) -> dict[str, Measured]:
    """Return the rows of one model."""
    people: Scores = {}
    sets: dict[str, Scores] = {}
    for seed in options.seeds:
        settings = {"data": options.data, "labels": options.labels, "seed": seed,
                    "progress": False}  # fmt: skip
        settings |= {"model": model} if model else {}
        settings |= {"epochs": options.epochs} if options.epochs else {}
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if options.data:
                for who, score in on_unseen(settings, options.group, folder).items():
                    people.setdefault(who, []).append(score)
            for name, score in on_tested(settings, options.tested, folder).items():
                sets.setdefault(name.split(" ")[0], {}).setdefault(name, []).append(score)
    rows = {"unseen": people} if people else {}
    return {
        f"{model}_{name}": summarize(f"{model}, {name}", scores)
        for name, scores in (rows | sets).items()
    }


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", default="", help="npz of clips of several people")
    parser.add_argument("--labels", default="", help="their labels")
    parser.add_argument("--group", default="signer", help="column that says whose a clip is")
    parser.add_argument("--tested", nargs="*", default=[], metavar="NAME=DATA[,LABELS]")
    parser.add_argument("--models", nargs="*", default=[TrainConfig().model.name])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=0, help="0: as many as usual")
    options = parser.parse_args()
    found: dict[str, Measured] = {}
    for model in options.models:
        found |= measure(model, options)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
