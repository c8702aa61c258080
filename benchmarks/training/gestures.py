"""How well models of video tell gestures apart, and in how many minutes of a core.

    python -m benchmarks.training.gestures --data gestures5/labels.csv [--arms tsm tsn r2plus1d]
        [--seeds 0 1 2] [--epochs N] [--group recorded_at] [--out FOLDER] [--json]

Any list of videos will do, with splits train and dev. Every arm trains in one thread, channels
last, and is scored once, with its last weights, so that none picks its best moment; `ARMS` says by
which of `examples/` and with what changes. Models that learn from pixels read frames that are
decoded once, into packs (`posemill frames`); frozen features come from the videos themselves, once
for all seeds. Keypoints are those of every second frame of the same clips, found by engine
holistic, whose minutes are not counted. A row is the median of the seeds' accuracy on dev. With
`--group` each arm is trained once for every value of that column, too, without the clips that have
it, and scored on those: the median over all. With `--out` what was decoded, found and trained stays
there, and the same command again goes on. Not in `make bench`: it measures data of yours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import posemill
from benchmarks.shared.measuring import Measured, make_parser, over_rounds, report, say
from posemill.tables import read_table
from posemill.training.config.resolve import read_config

EXAMPLES = Path(__file__).parents[2] / "examples"
_TSM, _LITE0 = "gestures5_tsm.toml", "gestures5_lite0.toml"
# Name -> the example, and what is other than there.
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "tsm": (_TSM, {}),
    "tsn": (_TSM, {"model": "tsn"}),
    "r2plus1d": (_TSM, {"model": "r2plus1d"}),
    "slowfast": (_TSM, {"model": "slowfast", "video_sampling": "segments:16"}),
    "lite0": (_LITE0, {}),
    "keypoints": (_LITE0, {"model": "tcn_bilstm"}),
    "two_streams": (_LITE0, {"model": "two_streams"}),
}


def prepare_frames(data: Path, folder: Path, size: int) -> Path:
    """Return packs of the clips of a list, their shorter side in pixels; made where not there."""
    out = folder / f"frames{size}"
    if not (out / "index.csv").is_file():
        posemill.frames(data, out, resize=str(size), short_side=True, pack=True, progress=False)
    return out


def prepare_keypoints(data: Path, folder: Path) -> Path:
    """Return the prepared keypoints of the clips of a list; found where not there."""
    out = folder / "keypoints_input"
    if not any(out.glob("*_keypoints.npz")):
        run = folder / "keypoints"
        posemill.extract(data, run, skeleton="holistic-143", stride=2, progress=False)
        posemill.prepare(run, out)
    return out


def settings_of(arm: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the settings of an arm, its data among them."""
    example, other = ARMS[arm]
    found = read_config(EXAMPLES / example) | other
    found |= {"parallel": "single", "threads": 1, "workers": 0, "figures": False,
              "tensorboard": False, "progress": False, "channels_last": True,
              "eval_every": 100_000, "save_every": 100_000}  # fmt: skip
    if options.epochs:
        found["epochs"] = options.epochs
    if example == _TSM:
        return found | {"data": str(prepare_frames(options.data, folder, found["video_size"]))}
    if arm == "lite0":
        return found | {"data": str(options.data)}
    points = str(prepare_keypoints(options.data, folder))
    of_video = found.pop("model_options")
    if arm == "two_streams":
        both = {"video_model": "tsn", "video_options": of_video}
        return found | {"data": [points, str(options.data)], "model_options": both}
    plain = {name: value for name, value in found.items() if not name.startswith("video_")}
    return plain | {"data": points, "labels": str(options.data)}


def train_once(settings: dict[str, Any], split: str, out: Path) -> tuple[float, float]:
    """Return accuracy and CPU minutes of a training; what an earlier call found, where it did."""
    note = out / "minutes.json"
    if note.is_file():
        accuracy, minutes = json.loads(note.read_text())
        return accuracy, minutes
    begun = process_time()
    result = posemill.train(**{**settings, "out": str(out)})
    found = result.scores[split]["accuracy"], (process_time() - begun) / 60
    note.write_text(json.dumps(found))
    return found


def measure(arm: str, options: argparse.Namespace, folder: Path) -> dict[str, Measured]:
    """Return the rows of one arm."""
    settings = settings_of(arm, options, folder)
    found, minutes, left = [], [], []
    for seed in options.seeds:
        given = settings | {"seed": seed}
        accuracy, taken = train_once(given, "dev", folder / f"{arm}_{seed}")
        found.append(accuracy)
        minutes.append(taken)
        say(f"{arm:12} seed {seed}: {accuracy:.3f} in {taken:.1f} CPU minutes")
        for group in groups_of(options):
            given["leave_out"] = f"{options.group}={group}"
            accuracy, _ = train_once(given, "test", folder / f"{arm}_{seed}_{group}")
            left.append(accuracy)
            say(f"{arm:12} seed {seed}: {accuracy:.3f} without {options.group} {group}")
    each = f"{', '.join(f'{one:.3f}' for one in found)}; {statistics.median(minutes):.1f} CPU min"
    rows = {f"{arm}_dev": over_rounds(found).noted(each)}
    if left:
        rows[f"{arm}_left_out"] = over_rounds(left).noted(", ".join(f"{one:.3f}" for one in left))
    return rows


def groups_of(options: argparse.Namespace) -> list[str]:
    """Return the values of the column that says what is left out; none where none is asked for."""
    if not options.group:
        return []
    rows = read_table(options.data, names=["path"], encoding="utf-8")
    return sorted({row[options.group] for _, row in rows})


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="list: path, split, label")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=0, help="0: as the examples say")
    parser.add_argument("--group", default="", help="column of the list: leave each value out")
    parser.add_argument("--out", type=Path, help="folder that stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        found: dict[str, Measured] = {}
        for arm in options.arms:
            found |= measure(arm, options, folder)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
