"""`python -m tools.screenshots [FOLDER] --out PICTURES`: a picture of each page of `serve`.

FOLDER holds runs; the first extraction with a second run of the same clips, the first training and
the first sweep are shown. Without it runs are made, of the demo's videos and of made-up signs: so
the pictures of the documentation are made, by `make screenshots`. Needs Playwright and Chromium
(`make browser`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode
from urllib.request import urlopen

import cv2
import numpy as np
from playwright.sync_api import Page, sync_playwright

import posemill
from benchmarks.shared.made_up import write_clips
from posemill.inspection.drawing.movies import write_movie
from posemill.web.server import make_server
from posemill.weights.pull import ensure_media

# name -> width, locale, light or dark
LOOKS: dict[str, tuple[int, str, Literal["light", "dark"]]] = {
    "": (1280, "en-GB", "light"), "dark": (1280, "en-GB", "dark"), "zh": (1280, "zh-CN", "light"),
    "phone": (400, "en-GB", "light"), "phone_zh": (400, "zh-CN", "dark"),
}  # fmt: skip
HEIGHTS = {"home": 640, "player": 960, "compare": 960}  # 800 otherwise; a long page is taken whole


def main() -> None:
    """Serve the folder and look at it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--pages", nargs="*")
    parser.add_argument("--looks", nargs="*", default=list(LOOKS))
    parser.add_argument("--run", default="", help="name of the extraction to show")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "runs"
        if options.folder is None:
            make_runs(Path(name) / "videos", folder)
        take_pictures(folder, options)


def take_pictures(folder: Path, options: argparse.Namespace) -> None:
    """Serve a folder and take a picture of each page in each look."""
    (server, listening), address = make_server([folder], host="127.0.0.1", port=0)
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    serving.start()
    pages = find_pages(address, options.run)
    with sync_playwright() as starter:
        browser = starter.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for look in options.looks:
            width, locale, scheme = LOOKS[look]
            context = browser.new_context(
                viewport={"width": width, "height": 800}, locale=locale, color_scheme=scheme
            )
            page = context.new_page()
            for name, place in pages.items():
                if options.pages and name not in options.pages:
                    continue
                page.set_viewport_size({"width": width, "height": HEIGHTS.get(name, 800)})
                page.goto("about:blank")
                page.goto(address + place)
                settle(page, name)
                path = options.out / f"{name}{'_' if look else ''}{look}.png"
                page.screenshot(path=str(path), full_page=name not in ("clips", "home"))
                print(path)
            context.close()
        browser.close()
    server.should_exit = True
    serving.join(30)


def make_runs(source: Path, folder: Path) -> None:
    """Make two extractions of the same clips, one of them cut off, and two trainings."""
    for name, split in (("carphone", "train"), ("jumper", "dev")):
        cut_video(ensure_media(name), source / split)
    first = next((source / "train").iterdir())
    (source / "train" / "cut_off.mp4").write_bytes(first.read_bytes()[:2000])
    for name, mode in (("people", "video"), ("people_one_by_one", "image")):
        posemill.extract(source, folder / name, mode=mode, progress=False)
    rng = np.random.default_rng(0)
    write_clips(folder / "signs", rng.integers(12, 24, 400).tolist(), 12)
    settings: dict[str, Any] = {
        "data": str(folder / "signs"), "labels": str(folder / "signs" / "labels.csv"), "lr": 1e-3,
        "epochs": 12, "threads": 1, "parallel": "single", "progress": False, "figures": False,
        "tensorboard": False, "workers": 0,
    }  # fmt: skip
    for model in ("mlp", "tcn_bilstm"):
        posemill.train({**settings, "model": model, "out": str(folder / "trained" / model)})


def cut_video(path: Path, folder: Path) -> None:
    """Cut a video into clips of 30 frames, at most 640 pixels wide."""
    folder.mkdir(parents=True)
    frames = []
    video = cv2.VideoCapture(str(path))
    while (read := video.read())[0]:
        height, width = read[1].shape[:2]
        scale = min(1.0, 640 / width)
        size_wh = round(width * scale) // 2 * 2, round(height * scale) // 2 * 2
        frames.append(
            cv2.cvtColor(cv2.resize(read[1], size_wh), cv2.COLOR_BGR2RGB).astype(np.uint8)
        )
    for number, start in enumerate(range(0, len(frames) - 29, 30)):
        clip = frames[start : start + 30]
        write_movie(folder / f"{path.stem}_{number:02d}.mp4", iter(clip), kind="mp4", fps=30.0)


def find_pages(address: str, name: str) -> dict[str, str]:
    """Return the places of the pages, by name."""
    answer: dict[str, Any] = {"is_complete": False}
    while not answer["is_complete"]:
        answer = _json(f"{address}api/runs")
        time.sleep(0.1)
    runs = answer["runs"]
    extractions = [run for run in runs if run["kind"] == "extraction" and run["state"] != "broken"]
    run = next((each for each in extractions if name in ("", each["name"])), None)
    pages = {"home": ""}
    for kind in ("training", "sweep"):
        whole = [each for each in runs if each["kind"] == kind and each["state"] == "finished"]
        # One of a sweep only where there is no other.
        for found in sorted(whole, key=lambda each: each["name"].endswith("/run"))[:1]:
            pages[kind] = f"#/run/{found['key']}"
    if run is None:
        return pages
    page: dict[str, Any] = {"is_ready": False}
    while not page["is_ready"] or page["is_measuring"]:
        page = _json(f"{address}api/runs/{run['key']}/clips?sort=worst")
        time.sleep(0.2)
    clips = [clip for clip in page["clips"] if clip["num_rows"] > 10]
    clip = clips[-1]  # the best, with all its parts
    asked = {"split": clip["split"], "id": clip["clip_id"], "frame": clip["num_rows"] // 2}
    pages |= {
        "run": f"#/run/{run['key']}",
        "clips": f"#/clips/{run['key']}?sort=worst",
        "player": f"#/clip/{run['key']}?{urlencode(asked)}",
    }
    for other in extractions:
        if other is not run and other["total"] == run["total"]:
            asked["other"] = other["key"]
            pages["compare"] = f"#/clip/{run['key']}?{urlencode(asked)}"
    return pages


def settle(page: Page, name: str) -> None:
    """Wait until a page shows what it will show."""
    if name in ("player", "compare"):
        page.wait_for_selector("#stage[data-ready='1'][data-picture='1']", timeout=60_000)
    if name == "compare":
        page.wait_for_selector("#compared table")
    if name == "clips":
        # Those in view, and a few below: all that were begun are done.
        page.wait_for_function(
            "() => document.querySelectorAll('.thumb[data-drawn]').length >= 7", timeout=60_000
        )
    page.wait_for_timeout(700)


def _json(address: str) -> Any:
    with urlopen(address, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
