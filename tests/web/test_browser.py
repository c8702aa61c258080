"""The page in a real browser: what it shows, what it draws, and that it asks nobody else."""

import os
import re
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing, contextmanager
from urllib.parse import urlencode

import cv2
import numpy as np
import psutil
import pytest
from made_up_people import make_person, write_run
from made_up_trainings import write_sweep, write_training

import posemill
from posemill.machine.processes import python_command
from posemill.skeletons.palette import COLOURS, point_keys, rgb_of
from posemill.web.clip_index import index_path, mark_of, open_index
from posemill.web.library import Library
from posemill.web.measuring import list_run

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
# One process draws all pages, and none of them on a GPU that is not there.
CHEAP = ["--no-sandbox", "--disable-gpu", "--renderer-process-limit=1", "--process-per-site"]
PATIENCE_MS = 120_000  # of a page, on a machine with ten times the work
CHROMIUM = os.environ.get("POSEMILL_CHROMIUM") or shutil.which("chromium") or ""


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium on this machine; make browser installs it on Debian")
    with _killed_after(60):
        starter = playwright.sync_playwright().start()
    try:
        started = starter.chromium.launch(executable_path=CHROMIUM, args=CHEAP, timeout=60_000)
        yield started
    finally:
        with _killed_after(30):
            starter.stop()  # and all that it opened


@contextmanager
def _killed_after(seconds):
    """Kill Playwright's driver if it takes longer: whoever waits for it gets an error."""

    def kill():
        for child in psutil.Process().children():
            if "playwright" in " ".join(child.cmdline()):
                child.kill()

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture(scope="module")
def served(runs, running, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POSEMILL_CACHE", str(tmp_path_factory.mktemp("cache")))
        with running(runs) as address:
            yield address


@pytest.fixture
def open_page(browser, served):
    """A function that opens a page; at the end nothing was complained of or asked elsewhere."""
    contexts, wrong = [], []

    def open_it(path="", *, width=1280, at=served, **options):
        options = {"locale": "en-GB", "reduced_motion": "reduce", **options}
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: None if asked.url.startswith((at, "blob:"))
                else wrong.append(f"asked {asked.url}"))  # fmt: skip
        page.on("dialog", lambda box: wrong.append(f"dialog {box.message}"))
        page.goto(at + path)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert wrong == []


def key_of(folder):
    """Return what the page's addresses call a run."""
    library = Library([folder])
    library.look()
    return next(entry.key for entry in library.entries() if entry.folder == folder.resolve())


def test_home_a_run_its_clips_and_strange_names(open_page, runs, hostile):
    page = open_page()
    page.wait_for_selector(".run .name:text-is('fake')")
    broken = page.locator(".run.broken", has_text="not_json")
    assert "is not the manifest of a posemill run" in broken.inner_text()
    page.get_by_role("link", name=re.compile("^fake")).click()
    page.wait_for_selector("h2:text-is('Splits')")
    page.locator(".reasonbox summary").click()
    page.wait_for_selector(".file code:has-text('2.png')")
    assert page.locator(".command pre").first.inner_text().startswith("posemill extract")
    page.goto(page.url.split("#")[0] + f"#/clips/{key_of(runs / 'fake')}")
    page.wait_for_selector("#clips .clip .name:text-is('a')")
    page.fill("#filter-search", "b")
    page.wait_for_selector("#measured:text-is('1 clip')")
    assert page.locator("#clips .clip").count() == 1
    page.wait_for_selector("canvas.thumb[data-drawn='1']")
    page.goto(page.url.split("#")[0] + f"#/clips/{key_of(runs / 'people')}")
    page.wait_for_selector("#clips .clip")
    # Names of strangers are text: no element came of them.
    assert hostile in page.locator("#clips").inner_text()
    assert page.locator("#clips img").count() == 0
    page.locator("#clips .clip").nth(1).click()
    page.wait_for_selector("#stage[data-ready='1']")
    assert hostile in page.locator("h1").inner_text()


def test_the_player_draws_the_points_of_the_frame_it_names_in_their_colours(open_page, runs):
    name = urlencode({"split": "train", "id": "swaying"})
    page = open_page(f"#/clip/{key_of(runs / 'people')}?{name}")
    page.wait_for_selector("#stage[data-ready='1']")
    page.keyboard.press("o")  # no original: nothing but the skeleton
    clip = posemill.open_run(runs / "people")["train", "swaying"]
    shoulder, wrist = (clip.skeleton.point_names.index(f"{side}_{joint}")
                       for side, joint in (("left", "shoulder"), ("right", "elbow")))  # fmt: skip
    for keys, frame in ((["ArrowRight"] * 3, 3), (["Shift+ArrowRight"], 13), (["End"], 39)):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_selector(f"#stage[data-ready='1'][data-frame='{frame}']")
        for point in (shoulder, wrist):
            assert (
                colour_at(page, clip.points[frame, point, :2])
                == COLOURS[point_keys(clip.skeleton_name)[point]]
            )
    for point in (shoulder, wrist):  # where it was at first is the ground, or another bone
        shown = colour_at(page, clip.points[0, point, :2] - (0.0, 0.02))
        assert shown != COLOURS[point_keys(clip.skeleton_name)[point]]
    page.keyboard.press("1")  # the pose is part 1
    page.wait_for_selector(".check input:not(:checked)")
    page.wait_for_timeout(60)
    assert colour_at(page, clip.points[39, shoulder, :2]) == (27, 30, 36)
    page.keyboard.press("1")
    page.select_option("#other", key_of(runs / "others"))
    page.wait_for_selector("#compared table")
    assert "6.24" in page.locator("#compared tr", has_text="pose").inner_text()
    page.wait_for_selector("#stage[data-ready='1']")


def test_keypoints_that_do_not_come_are_said_and_asked_for_again(browser, served, runs):
    key = key_of(runs / "people")
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    asked = []

    def fail_once(route):
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
        else:
            route.fulfill(status=404, json={"reason": "the shard is gone"})

    page.route("**/points?*", fail_once)
    name = urlencode({"split": "train", "id": "swaying"})
    page.goto(f"{served}#/clip/{key}?{name}")
    page.wait_for_selector(".note:has-text('the shard is gone')")
    page.wait_for_selector("#stage[data-ready='1']")
    assert page.locator(".note", has_text="the shard is gone").count() == 0
    context.close()


def test_the_player_keeps_frame_and_comparison_in_another_language(open_page, runs):
    name = urlencode({"split": "train", "id": "swaying"})
    page = open_page(f"#/clip/{key_of(runs / 'people')}?{name}")
    page.wait_for_selector("#other option:nth-child(2)", state="attached")
    assert page.locator("#other option").all_inner_texts() == ["none", "every third", "others"]
    page.select_option("#other", key_of(runs / "every third"))
    page.wait_for_selector("#compared table")
    page.wait_for_timeout(100)
    # The other run has every third frame: the curve is a line all the same.
    assert accent_columns(page) > 0.6
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#stage[data-frame='6']")
    page.click("#language")
    page.wait_for_selector("#language:text-is('English')")
    page.wait_for_selector("#compared table")
    page.wait_for_selector("#stage[data-frame='6']")
    assert page.input_value("#other") == key_of(runs / "every third")


def accent_columns(page):
    """Return in which share of the columns of the timeline the colour of the curve is."""
    accent = page.locator("#timeline").evaluate(
        "each => getComputedStyle(each).getPropertyValue('--accent')"
    )
    shot = np.frombuffer(page.locator("#timeline").screenshot(), np.uint8)
    pixels = cv2.imdecode(shot, cv2.IMREAD_COLOR)[..., ::-1].astype(int)
    return float((np.abs(pixels - rgb_of(accent.strip())).sum(2) < 60).any(0).mean())


def colour_at(page, place):
    """Return the colour of the canvas where x and y, in shares of the picture, are."""
    script = """([x, y]) => {
      const canvas = document.getElementById("stage");
      const [left, top, width, height] = canvas.dataset.box.split(",").map(Number);
      const ratio = canvas.width / canvas.clientWidth;
      const at = [left + x * width, top + y * height].map((each) => Math.round(each * ratio));
      return [...canvas.getContext("2d").getImageData(at[0], at[1], 1, 1).data].slice(0, 3);
    }"""
    return tuple(page.evaluate(script, [float(place[0]), float(place[1])]))


def test_a_running_extraction_is_seen_to_go_on(open_page, runs, tmp_path):
    rng = np.random.default_rng(0)
    for index in range(24):
        path = tmp_path / "source" / "clip" / f"{index:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(path), rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    out = runs / "live"
    # Another process: a lock does not keep out, or show, who holds it.
    command = python_command(
        "posemill", "extract", str(tmp_path / "source"), "--out", str(out), "--engine", "fake",
        "--engine-option", "seconds_per_frame=0.1", "--executor", "serial", "--task-frames", "4",
        "--batch-size", "1",
    )  # fmt: skip
    page = open_page()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as work:
        try:
            page.wait_for_selector(".run.running .name:text-is('live')")
            page.locator(".run.running").click()
            page.wait_for_selector(".state.running")
            page.wait_for_selector("td:has-text('part-000')")  # what the worker is at
            seen = page.locator(".tile b").first.inner_text()
            page.wait_for_selector(f".tile:first-child b:not(:text-is('{seen}'))")
            page.wait_for_selector(".state.finished")
            assert page.locator(".tile b").first.inner_text() == "24"
        finally:
            work.kill()
    shutil.rmtree(out)


def test_a_training_shows_curves_a_matrix_to_choose_from_and_a_sweep(open_page, runs, tmp_path):
    for name in ("one", "two"):
        write_training(runs / "trained" / name, data=str(runs / "prepared"), clip="c")
    changes = [{"lr": 0.001}, {"lr": 0.002}, {"lr": 0.004}]
    for folder in write_sweep(runs / "swept", changes)[:2]:
        write_training(folder)
    try:
        key, swept = key_of(runs / "trained" / "one"), key_of(runs / "swept")
        page = open_page()  # it shows new runs when they are found
        page.locator(".run", has=page.locator(".name:text-is('trained/one')")).click()
        page.wait_for_selector("#curves svg path.line")
        assert page.locator("#curves svg").count() == 4
        page.locator("summary:has-text('Lay other trainings')").click()
        page.locator("#others label:has-text('trained/two') input").check()
        page.wait_for_selector("#curves .legend:has-text('trained/two')")
        page.locator("#confusion .cell[aria-label^='yes → no']").click()
        page.wait_for_selector("#found td:has-text('c')")
        page.locator("#found a").first.click()
        page.wait_for_selector("#stage[data-ready='1']")
        assert page.locator("#said").inner_text().startswith("predicted no, true is yes")
        page.goto(page.url.split("#")[0] + f"#/run/{swept}")
        page.wait_for_selector("#trainings tbody tr")
        assert page.locator("#trainings tbody tr").count() == 3
        page.locator(".sort:has-text('lr')").click()
        assert "0.004" in page.locator("#trainings tbody tr").first.inner_text()
        page.wait_for_selector("#scatter circle")
        narrow = open_page(f"#/run/{swept}", width=400)
        narrow.wait_for_selector("#scatter circle")
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 400
        page.goto(page.url.split("#")[0] + f"#/run/{key}")
        page.wait_for_selector("h2:text-is('Where the time goes')")
    finally:
        shutil.rmtree(runs / "trained")
        shutil.rmtree(runs / "swept")


def test_names_of_strangers_are_text_on_every_page(open_page, runs, hostile):
    name = hostile.replace("/", "|")  # as a folder may be called
    write_training(runs / name, data=str(runs / "prepared"), clip=hostile, label=hostile)
    (runs / name / "log.txt").write_text(hostile)
    changes = [{hostile: hostile, "lr": 1}, {hostile: f"{hostile}2", "lr": 2}]
    write_training(write_sweep(runs / f"{name} swept", changes, file=hostile)[0])
    try:
        page = open_page(locale="zh-CN")
        page.wait_for_selector("#runs .run")
        page.wait_for_function("name => document.body.innerText.includes(name)", arg=name)
        links = page.locator(".run").evaluate_all("all => all.map(each => each.hash)")
        assert len(links) >= 9
        page.fill("input[type=search]", hostile)
        for link in links:
            page.goto(page.url.split("#")[0] + link)
            page.wait_for_selector("main h1, main [role=alert]")
            for each in page.locator("summary").all():
                each.click()
            for cell in page.locator("#confusion .cell").all()[:2]:
                cell.click()
                page.wait_for_selector("#found td")
            assert page.locator("[onerror], main img").count() == 0, link
    finally:
        shutil.rmtree(runs / name)
        shutil.rmtree(runs / f"{name} swept")


def test_chinese_dark_and_the_width_of_a_phone(open_page, runs):
    page = open_page(width=400, locale="zh-CN", color_scheme="dark")
    page.wait_for_selector("#runs .run")
    key = key_of(runs / "fake")
    assert page.locator("h1").inner_text() == "运行"
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    name = urlencode({"split": "train", "id": "a"})
    for path, word in (
        (f"run/{key}", "划分"),
        (f"clips/{key}", "排序"),
        (f"clip/{key}?{name}", "质量"),
    ):
        page.goto(page.url.split("#")[0] + f"#/{path}")
        page.wait_for_selector(f":text('{word}')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    page.click("#language")
    page.wait_for_selector("h2:text-is('Quality')")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_page_of_a_million_frames_takes_little_of_the_server(open_page, tmp_path):
    write_million_frames(tmp_path / "runs" / "million")
    with serving(tmp_path / "runs") as (address, server):
        page = open_page(at=address)
        page.wait_for_selector(".run:has-text('1,000,000 / 1,000,000 frames')")
        page.goto(f"{address}#/clips/{key_of(tmp_path / 'runs' / 'million')}")
        page.wait_for_selector("#measured:text-is('10,000 clips')")
        page.wait_for_selector("canvas.thumb[data-drawn='1']")  # by now all is imported
        for ask in (
            lambda: page.select_option("#filter-sort", "order"),
            lambda: page.click("#page-next"),
            lambda: page.fill("#filter-search", "099"),
            lambda: page.select_option("#filter-split", "dev"),
        ):
            before, first = cpu_seconds(server), page.locator("#clips .clip .name").first
            shown = first.inner_text()
            ask()
            page.wait_for_selector(f"#clips .clip:first-of-type .name:not(:text-is('{shown}'))")
            page.wait_for_selector("canvas.thumb[data-drawn='1']")
            assert cpu_seconds(server) - before < 0.3
        assert server.memory_info().rss < 150e6
        page.close()  # before the server goes: its questions would fail


def write_million_frames(folder):
    """Write a run of 10,000 clips of 100 frames, all of them the same rows of one shard."""
    write_run(folder, make_person(100, clip_id="clip_00001", split="train"), kind="import")
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger, ledger:
        more = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        ledger.execute(
            f"{more} INSERT INTO clips (clip_no, split, clip_id, num_frames) "
            "SELECT i, iif(i % 10, 'train', 'dev'), printf('clip_%05d', i), 100 FROM n"
        )
        ledger.execute(
            f"{more} INSERT INTO pieces (clip_no, first_frame, shard_no, row_offset, num_rows, "
            "found) SELECT i, 0, shard_no, row_offset, num_rows, found FROM n, "
            "(SELECT * FROM pieces)"
        )
        counts = "num_clips, clips_done, frames_known, frames_out"
        ledger.execute("DELETE FROM splits")
        ledger.execute(f"INSERT INTO splits (split, {counts}) VALUES ('train', 9000, 9000, 900000, "
                       "900000), ('dev', 1000, 1000, 100000, 100000)")  # fmt: skip
    # As if measured: a minute's work, and not what is asked here.
    library = Library([folder])
    library.look()
    with closing(open_index(index_path(library.entries()[0]))) as table:
        list_run(folder, table)
        table.execute("UPDATE clips SET measured = mark, badness = clip_no % 997 / 997.0")
        table.execute("INSERT INTO meta VALUES ('mark', ?)", (mark_of(folder),))
        table.commit()


@contextmanager
def serving(folder):
    """`posemill serve` in a process of its own: its address, and itself."""
    command = python_command("posemill", "serve", str(folder), "--port", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        timer = threading.Timer(60, server.kill)
        timer.start()
        try:
            said = server.stderr.readline()
            timer.cancel()
            address = re.search(r"http://\S+/", said)
            assert address is not None, f"no address within a minute: {said!r}"
            yield address[0], psutil.Process(server.pid)
        finally:
            timer.cancel()
            server.kill()


def cpu_seconds(process):
    times = process.cpu_times()
    return float(times.user + times.system)


def test_every_word_of_the_page_has_a_chinese_one():
    from posemill.web.app import STATIC

    known = (STATIC / "words_zh.js").read_text()
    said = {
        text
        for path in STATIC.glob("*.js")
        for text in re.findall(r"\bt\(\s*\"((?:[^\"\\]|\\.)+)\"", path.read_text())
    }
    assert len(said) > 100
    assert [text for text in sorted(said) if f'"{text}":' not in known] == []
