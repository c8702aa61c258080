"""The hook of `mkdocs.yml`: pages made of the code, and of the files that lie beside docs/.

The front pages are the READMEs, the reference is made of `posemill.__all__` and of the declared
commands, so that nothing of them is written twice. Links that lead out of docs/ on the disk lead to
those pages on the site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

import posemill
from posemill.commands.help_page import ABOUT, group_sections, sections_of, usage_of
from posemill.commands.line import load_commands
from posemill.language import SETTING, translate

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/posemill/posemill/blob/main/"
# Files beside docs/ that are pages of the site.
BESIDE = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
CHINESE = "zh/"
_LINK = re.compile(r'(?<=\]\()(?![a-z]+:|#)[^)\s]+(?=\))|(?<=src=")(?![a-z]+:)[^"]+(?=")')
_SWITCH = re.compile(r"\A(English \| \[|\[English\]).*\n+")


def on_config(config: Any) -> Any:
    """Give Chinese headings anchors of their own words."""
    from markdown.extensions.toc import slugify_unicode

    config.mdx_configs["toc"]["slugify"] = slugify_unicode
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    for name, text in {**beside_pages(), **reference_pages()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page of docs/ with its links out of docs/ led to pages of the site."""
    if page.file.generated_by:
        return markdown
    return led(markdown, f"docs/{page.file.src_uri}")


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Show a page with the words and the navigation of its language, and the way to the other."""
    is_chinese = page.file.src_uri.startswith(CHINESE)
    config.theme["language"] = "zh" if is_chinese else "en"
    shown = copy(nav)
    chinese = nav.items[-1]
    shown.items = chinese.children if is_chinese else nav.items[:-1]
    here = page.file.src_uri.removeprefix(CHINESE)
    pages = {each.file.src_uri: each.file.url for each in nav.pages}
    for entry, prefix in zip(config.extra["alternate"], ("", CHINESE), strict=True):
        entry["link"] = pages.get(prefix + here, f"{prefix}index.html")
    context["nav"] = shown
    return context


def beside_pages() -> dict[str, str]:
    """Return the pages made of files beside docs/, by their place in docs/."""
    found = {}
    for name, page in BESIDE.items():
        text = _SWITCH.sub("", (ROOT / name).read_text(encoding="utf-8"))
        found[page] = led(text, name)
    return found


def led(markdown: str, path: str) -> str:
    """Return a text with links that hold on the site.

    Args:
        markdown: The text as it lies in the repository.
        path: Its file there: links start from it.
    """
    here = place_of(path) or ""

    def lead(found: re.Match[str]) -> str:
        target, mark, anchor = found[0].partition("#")
        whole = normpath(str(PurePosixPath(path).parent / target))
        place = place_of(whole)
        if place is None:
            return SOURCE + whole + mark + anchor
        return relpath(place, str(PurePosixPath(here).parent)) + mark + anchor

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(text if text.startswith("```") else _LINK.sub(lead, text) for text in parts)


def place_of(path: str) -> str | None:
    """Return where a file of the repository is in docs/; None if it is no part of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return BESIDE.get(path)


def reference_pages() -> dict[str, str]:
    """Return the pages made of the code, by their place in docs/."""
    names = sorted(posemill.__all__, key=str.lower)
    functions = [name for name in names if name in posemill._PUBLIC and name[0].islower()]
    others = [name for name in names if name not in functions]
    made = {
        "reference/functions.md": _names_page("Python functions", functions),
        "reference/classes.md": _names_page("Python classes and names", others),
    }
    for prefix, language in (("", "en"), (CHINESE, "zh")):
        with _speaking(language):
            made[f"{prefix}reference/commands.md"] = commands_page()
    return made


def _names_page(title: str, names: list[str]) -> str:
    lines = [f"# {title}", "", "All of them are names of `import posemill`.", ""]
    for name in names:
        module = posemill._PUBLIC.get(name, "posemill")
        lines += [f"::: {module}.{name}", ""]
        if name in posemill._PACKAGES:
            lines += ["    options:", "      members: false", ""]
    return "\n".join(lines)


def commands_page() -> str:
    """Return every command with its arguments, options, defaults and help, as a page."""
    commands, groups = load_commands()
    lines = [f"# {translate('Commands')}", ""]
    lines += _command("posemill", "posemill [OPTIONS] COMMAND", translate(ABOUT),
                      group_sections(commands, groups))  # fmt: skip
    for name, command in commands.items():
        usage, about = usage_of(command), translate(command.help)
        lines += _command(f"posemill {name}", usage, about, sections_of(command))
    return "\n".join(lines)


def _command(
    path: str, usage: str, about: str, parts: Mapping[str, list[tuple[str, str]]]
) -> list[str]:
    head = [f"## {path} {{#{path.replace(' ', '-')}}}", "", _plain(about), ""]
    return [*head, "```text", usage, "```", "", *_tables(parts)]


def _tables(parts: Mapping[str, list[tuple[str, str]]]) -> Iterator[str]:
    for title, rows in parts.items():
        yield from ("", f"| {title} | |", "|---|---|")
        for name, text in rows:
            yield f"| `{name.replace('|', '&#124;')}` | {_plain(text)} |"
    yield ""


def _plain(text: str) -> str:
    """Return help as markdown that shows it letter by letter, in one line."""
    words = re.split(r"(`[^`]*`)", " ".join(text.split()))
    shown = [
        each if each.startswith("`") else re.sub(r"([\\*_\[\]<>{}])", r"\\\1", each)
        for each in words
    ]
    return "".join(shown).replace("|", "&#124;")


@contextmanager
def _speaking(language: str) -> Iterator[None]:
    before = os.environ.get(SETTING)
    os.environ[SETTING] = language
    try:
        yield
    finally:
        if before is None:
            del os.environ[SETTING]
        else:
            os.environ[SETTING] = before
