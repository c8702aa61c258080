"""How far the engine's landmarks are from stock MediaPipe 0.10.21, on the same frames.

    python -m benchmarks.keypoints.parity [--frames FOLDER …] [--json]

For every folder of frames (default: `demo`, its clip and the astronaut's picture, without hands,
and `jumper`, its other clip) and both modes:
in how many frames both sides say the same about a part (`agree`), and the distances in pixels over
all landmarks both found, for LiteRT (the default, stock's own kernels), ONNX Runtime, and OpenVINO
(only here: what yet another order of additions gives). The row `noise` is stock against
itself after every hundredth value of the frames was changed by one grey level: what differs less
than that is below the original's own noise. Stock lives in a side environment below `.bench/`,
made at first use.
"""

from __future__ import annotations

import subprocess
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.shared.measuring import Measured, make_parser, report, say
from benchmarks.shared.stock_environment import stock_python
from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.jobs.landmarks import Mode, estimate_landmarks, save_landmarks
from posemill.weights.pull import ensure_media

MODES: tuple[Mode, ...] = ("image", "video")
PARTS = ("pose", "face", "left_hand", "right_hand")
STOCK_SCRIPT = """
import os, sys
from pathlib import Path
os.environ["GLOG_minloglevel"] = "3"
import cv2, numpy as np
import mediapipe as mp
folder, mode, noise, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "noise", sys.argv[4]
rng = np.random.default_rng(1)
sizes = dict(pose=33, face=468, left_hand=21, right_hand=21)
rows = {part: [] for part in sizes}
holistic = mp.solutions.holistic.Holistic(static_image_mode=mode == "image")
for path in sorted(folder.iterdir()):
    frame = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    if noise:
        step = rng.choice([-1, 1], frame.shape) * (rng.random(frame.shape) < 0.01)
        frame = np.clip(frame.astype(int) + step, 0, 255).astype(np.uint8)
    if mode == "image":
        holistic.reset()
    results = holistic.process(frame)
    for part, points in sizes.items():
        found = getattr(results, part + "_landmarks")
        rows[part].append(np.full((points, 3), np.nan) if found is None
                          else [(p.x, p.y, p.z) for p in found.landmark])
np.savez(out, **{part: np.array(values, np.float32) for part, values in rows.items()})
"""


def compare(expected: Path, got: Path, sizes_wh: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return agree, median, p95 and max for each part."""
    report = {}
    with np.load(expected) as theirs, np.load(got) as ours:
        for part in PARTS:
            a, b = theirs[part][..., :2], ours[part][..., :2]
            has_a, has_b = (~np.isnan(side).any((1, 2)) for side in (a, b))
            both = has_a & has_b
            pixels = np.linalg.norm((a[both] - b[both]) * sizes_wh[both][:, None], axis=-1)
            row: dict[str, Any] = {"agree": float((has_a == has_b).mean()), "both": int(both.sum())}
            for name, share in (("median", 50), ("p95", 95), ("max", 100)):
                row[name] = float(np.percentile(pixels, share)) if pixels.size else None
            report[part] = row
    return report


def demo_frames(root: Path) -> list[Path]:
    """Return a folder without hands and one with: clips and a photograph anybody can fetch."""
    with open_video(ensure_media("carphone")) as video:
        demo = [cv2.resize(frame, None, fx=2, fy=2) for frame in islice(video, 40)]
    photo = read_picture(ensure_media("astronaut"))
    demo += [cv2.resize(photo[i : 400 + i, 2 * i : 480 + 2 * i], (352, 288)) for i in range(20)]
    with open_video(ensure_media("jumper")) as video:
        jumper = list(islice(video, 60))
    for name, frames in (("demo", demo), ("jumper", jumper)):
        (root / name).mkdir()
        for index, frame in enumerate(frames):
            cv2.imwrite(str(root / name / f"{index:04d}.png"), frame[..., ::-1])
    return [root / "demo", root / "jumper"]


def measure(folder: Path, mode: Mode, scratch: Path) -> dict[str, Any]:
    """Return the reports of one folder and mode."""
    files = {name: scratch / f"{name}.npz" for name in ("plain", "noise", "ours")}
    for name in ("plain", "noise"):
        command = [stock_python(), "-c", STOCK_SCRIPT, folder, mode, name, files[name]]
        subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
    reports = {}
    for runtime in ("litert", "onnxruntime", "openvino"):
        clip, _ = estimate_landmarks(folder, mode=mode, engine_options={"runtime": runtime})
        save_landmarks(clip, files["ours"])
        reports[runtime] = compare(files["plain"], files["ours"], clip.sizes_wh)
    reports["noise"] = compare(files["plain"], files["noise"], clip.sizes_wh)
    return reports


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--frames", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as scratch:
        for folder in options.frames or demo_frames(Path(made)):
            for mode in MODES:
                reports = measure(folder, mode, Path(scratch))
                print_reports(f"{folder.name} {mode}", reports)
                found |= {
                    f"{folder.name}_{mode}_{who}_{part}": Measured(row["median"], note=words(row))
                    for who, report in reports.items()
                    for part, row in report.items()
                    if row["median"] is not None
                }
    report(found, as_json=options.json)


def words(row: dict[str, Any]) -> str:
    """Return the rest of a comparison in words."""
    return f"agree {row['agree']:.3f}, 95th percentile {row['p95']:.2f} px, {row['both']} frames"


def print_reports(key: str, reports: dict[str, Any]) -> None:
    """Print one table."""
    say(f"\n{key}: agree; median / p95 px")
    for name, parts in reports.items():
        cells = [f"{name:14s}"]
        for part in PARTS:
            row = parts[part]
            pixels = "-" if row["median"] is None else f"{row['median']:.3f} / {row['p95']:.2f}"
            cells.append(f"{part} {row['agree']:.3f}; {pixels:14s}")
        say("  ".join(cells))


if __name__ == "__main__":
    main()
