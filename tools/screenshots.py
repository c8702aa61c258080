"""`python -m tools.screenshots FOLDER --out docs/images/web`: a picture of each page of `serve`.

FOLDER holds runs; the first extraction with a second run of the same clips, the first training and
the first sweep are shown. Needs Playwright and Chromium (`make browser`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

from posemill.web.server import make_server

# name -> width, locale, light or dark
LOOKS: dict[str, tuple[int, str, Literal["light", "dark"]]] = {
    "": (1280, "en-GB", "light"), "dark": (1280, "en-GB", "dark"), "zh": (1280, "zh-CN", "light"),
    "phone": (400, "en-GB", "light"), "phone_zh": (400, "zh-CN", "dark"),
}  # fmt: skip


def main() -> None:
    """Serve the folder and look at it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--pages", nargs="*")
    parser.add_argument("--looks", nargs="*", default=list(LOOKS))
    parser.add_argument("--run", default="", help="name of the extraction to show")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (server, listening), address = make_server([options.folder], host="127.0.0.1", port=0)
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
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
                page.goto("about:blank")
                page.goto(address + place)
                settle(page, name)
                path = options.out / f"{name}{'_' if look else ''}{look}.png"
                page.screenshot(path=str(path), full_page=name not in ("clips", "home"))
                print(path)
            context.close()
        browser.close()


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
    clip = clips[len(clips) // 2]
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
        page.wait_for_selector(".clip canvas[data-drawn='1']", timeout=60_000)
    page.wait_for_timeout(700)


def _json(address: str) -> Any:
    with urlopen(address, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
