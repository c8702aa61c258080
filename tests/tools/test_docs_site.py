"""The site of docs/: every link and entry leads somewhere, the reference is whole, it builds."""

import os
import re
from pathlib import Path

import pytest

import posemill
from posemill.commands.line import load_commands
from tools.docs_site import BESIDE, SOURCE, beside_pages, led, reference_pages

yaml = pytest.importorskip("yaml", reason="PyYAML reads mkdocs.yml; it comes with the extra dev")

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def reference():
    return reference_pages()


def entries_of(nav):
    """Return the pages a navigation names, in its order."""
    if isinstance(nav, str):
        return [nav]
    if isinstance(nav, dict):
        nav = list(nav.values())
    return [page for each in nav for page in entries_of(each)]


def links_of(text):
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r'\]\(([^)\s]+)\)|src="([^"]+)"', prose)
    return [one or other for one, other in found]


def test_the_navigation_has_every_page_and_the_reference_every_public_name_once(reference):
    there = [*PAGES, *BESIDE.values(), *reference]
    assert sorted(entries_of(SETTINGS["nav"])) == sorted(there)
    text = reference["reference/functions.md"] + reference["reference/classes.md"]
    named = [line.rpartition(".")[2] for line in text.splitlines() if line.startswith("::: ")]
    assert sorted(named) == sorted(posemill.__all__)


@pytest.mark.parametrize("page", [*PAGES, *BESIDE.values()])
def test_every_link_of_a_page_leads_to_a_file_of_ours(page, reference):
    made = {**beside_pages(), **reference}
    text = made.get(page) or led((DOCS / page).read_text(encoding="utf-8"), f"docs/{page}")
    for link in links_of(text):
        target = link.partition("#")[0]
        if target.startswith(SOURCE):
            assert (ROOT / target.removeprefix(SOURCE)).exists(), link
        elif target and "://" not in target:
            place = os.path.normpath(Path(page).parent / target)
            assert place in made or (DOCS / place).is_file(), link


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("docs/x.md", "[a](../README.md#start)", "[a](index.md#start)"),
        ("docs/zh/x.md", "[a](../../README.zh-CN.md)", "[a](index.md)"),
        ("docs/zh/x.md", "[a](../video.md#b) ![c](y.svg)", "[a](../video.md#b) ![c](y.svg)"),
        ("README.zh-CN.md", "[a](docs/x.md) [b](examples)", f"[a](../x.md) [b]({SOURCE}examples)"),
        ("docs/x.md", "[a](#b) [c](https://d) <e>", "[a](#b) [c](https://d) <e>"),
        ("docs/x.md", "```\n[a](../LICENSE)\n```", "```\n[a](../LICENSE)\n```"),
    ],
)
def test_links_out_of_docs_lead_to_pages_of_the_site_and_others_to_the_source(path, text, wanted):
    assert led(text, path) == wanted


@pytest.mark.parametrize("page", ["reference/commands.md", "zh/reference/commands.md"])
def test_the_reference_has_every_command_with_every_flag(page, reference):
    text = reference[page]
    commands = load_commands()[0]
    assert len(commands) > 25
    for name, command in commands.items():
        path = f"posemill {name}"
        part = re.search(rf"^## {path} \{{#.*?(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
        assert part, path
        flags = [
            field.flags[0]
            for field in command.fields.values()
            if field.meta["flags"] or not field.meta["argument"]
        ]
        rows = [line for line in part[0].splitlines() if line.startswith("| `")]
        assert [flag for flag in flags if not any(flag in row for row in rows)] == [], path
