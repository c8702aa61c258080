"""The READMEs and the guides: the same commands in both languages, and they run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
# Pages of docs/zh/ are pages of docs/, written again.
PAIRS = [(ENGLISH, CHINESE)] + [
    (f"docs/{path}", f"docs/zh/{path}")
    for path in sorted(
        each.relative_to(ROOT / "docs/zh").as_posix() for each in (ROOT / "docs/zh").rglob("*.md")
    )
]
GUIDES = sorted(each.relative_to(ROOT).as_posix() for each in (ROOT / "docs/guides").glob("*.md"))
FIXED_WORDS = ["片段", "帧", "关键点", "骨架", "置信度", "分片", "任务"]
FIRST_SCREEN_LINES = 45
MAX_LINES = 120


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks_of(name):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", read(name), flags=re.DOTALL | re.MULTILINE)
    return [Block(language, text) for language, text in found]


def prose_of(name):
    return re.sub(r"^```.*?^```$", "", read(name), flags=re.DOTALL | re.MULTILINE)


def headings_of(name):
    return [
        (len(marks), text)
        for marks, text in re.findall(r"^(#+) (.+)$", prose_of(name), flags=re.MULTILINE)
    ]


def commands_of(name):
    lines = [
        line
        for block in blocks_of(name)
        if block.language in ("bash", "sh")
        for line in block.text.splitlines()
    ]
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def code_of(block):
    """Return a block without its comments, and without what a tree of files says beside names."""
    if block.language == "text" and not block.text.startswith("runs/"):
        # What commands printed is in the language of the page: the commands are the same.
        commands = [line for line in block.text.splitlines() if line.startswith("$ ")]
        return Block(block.language, "\n".join(commands) or block.text)
    comment = r"(?<=\S) +# .*$" if block.language != "text" else r"(?<=\S)  +.*$"
    return Block(block.language, re.sub(comment, "", block.text, flags=re.MULTILINE))


def test_every_guide_is_in_both_languages_and_begins_with_the_way_to_the_other():
    assert len(GUIDES) >= 6
    assert set(GUIDES) <= {english for english, _ in PAIRS}
    assert read(ENGLISH).splitlines()[0] == f"English | [简体中文]({CHINESE})"
    assert read(CHINESE).splitlines()[0] == f"[English]({ENGLISH}) | 简体中文"


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_both_have_the_same_code_in_the_same_order(english, chinese):
    assert list(map(code_of, blocks_of(english))) == list(map(code_of, blocks_of(chinese)))
    assert blocks_of(english)


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_both_have_the_same_headings_and_tables(english, chinese):
    one, other = headings_of(english), headings_of(chinese)
    assert [level for level, _ in one] == [level for level, _ in other]
    rows = [len(re.findall(r"^\|", prose_of(name), re.MULTILINE)) for name in (english, chinese)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", [chinese for _, chinese in PAIRS])
def test_the_comments_of_the_chinese_one_are_chinese(name):
    names = re.compile(r"\{split\}|clip\.show\(\)")  # comments that are code themselves
    comments = [
        line.partition("# ")[2]
        for block in blocks_of(name)
        if block.language != "text"
        for line in block.text.splitlines()
        if "# " in line and not names.search(line)
    ]
    assert [each for each in comments if not re.search("[\u4e00-\u9fff]", each)] == []


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_it_is_short(name):
    assert len(read(name).splitlines()) <= MAX_LINES


@pytest.mark.parametrize("name", [ENGLISH, CHINESE])
def test_the_moving_picture_and_the_first_commands_are_on_the_first_screen(name):
    first_screen = "\n".join(read(name).splitlines()[:FIRST_SCREEN_LINES])
    assert re.search(r"^make demo\b", first_screen, flags=re.MULTILINE)
    assert re.search(r"^make test\b", first_screen, flags=re.MULTILINE)
    assert re.search(r"^posemill extract\b", first_screen, flags=re.MULTILINE)
    assert ".webp" in first_screen


def test_the_chinese_one_uses_the_fixed_words():
    assert [word for word in FIXED_WORDS if word not in prose_of(CHINESE)] == []


PAGES = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("name", [ENGLISH, CHINESE, *PAGES])
def test_every_link_to_a_file_of_ours_leads_somewhere(name):
    links = re.findall(r'(?:\]\(|src=")([^)#"]+)', prose_of(name))
    ours = [link for link in links if "://" not in link]
    assert ours or name in PAGES
    folder = (ROOT / name).parent
    assert [link for link in ours if not (folder / link).exists()] == []


def test_every_make_target_and_every_extra_that_is_named_exists():
    commands = commands_of(ENGLISH)
    makefile = (ROOT / "Makefile").read_text()
    for target in {word for line in commands for word in re.findall(r"^make (\w+)", line)}:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in (read(ENGLISH), read(CHINESE)):
        for extras in re.findall(r"posemill\[([\w,]+)\]", text):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder as a new user has it: some videos of a real person, and labels for them."""
    import av

    from posemill.weights.pull import ensure_media

    folder = tmp_path_factory.mktemp("readme")
    (folder / "videos").mkdir()
    with av.open(str(ensure_media("carphone"))) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    lines = ["video_id,label"]
    for number in range(8):
        name = f"clip{number}"
        with av.open(str(folder / "videos" / f"{name}.mp4"), "w") as video:
            stream = video.add_stream("mpeg4", rate=25)
            stream.height, stream.width = frames[0].shape[:2]
            stream.pix_fmt = "yuv420p"
            for pixels in frames[10 * number : 10 * number + 2]:
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                video.mux(stream.encode(frame))
            video.mux(stream.encode())
        lines.append(f"{name},{'talk' if number % 2 else 'listen'}")
    (folder / "frames" / "train").mkdir(parents=True)
    for number in (0, 40):
        picture = folder / "frames" / "train" / f"{number}.png"
        av.VideoFrame.from_ndarray(frames[number], format="rgb24").to_image().save(picture)
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def run(command, workspace, python):
    """Run a command as the user would: `posemill` is on the path, the workspace is here.

    Args:
        command: The program and its arguments.
        workspace: The current folder.
        python: What runs `posemill`.

    Returns:
        What it printed.
    """
    tools = workspace / ".bin"
    tools.mkdir(exist_ok=True)
    script = tools / "posemill"
    script.write_text(f'#!/bin/sh\nexec "{python}" -m posemill "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_WAIT_POLICY": "passive",
    }
    result = subprocess.run(
        command, cwd=workspace, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command[-1]}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_every_command_and_every_python_block_runs_as_it_stands(workspace, warm_python):
    python = warm_python.executable
    # In order and in one folder. Blocks marked `sh` need a fresh machine: make, pip, clusters.
    done = 0
    for block in blocks_of(ENGLISH):
        if block.language == "bash":
            said = run(["bash", "-euo", "pipefail", "-c", block.text], workspace, python)
            if "posemill evaluate" in block.text:
                assert re.search(r"^accuracy +[01]\.[0-9]+$", said, flags=re.MULTILINE), said
        elif block.language == "python":
            for _ in range(2):  # again, as who tries it does
                run([python, "-W", "error", "-c", block.text], workspace, python)
        else:
            continue
        done += 1
    assert done >= 3


def run_here(block):
    """Run a block in this process and folder, which spares a start of Python for each line.

    Returns:
        How many commands it has.
    """
    from posemill.commands.line import main

    if block.language == "python":
        exec(compile(block.text, "guide", "exec"), {"__name__": "guide"})
        return 1
    commands = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    for program, *arguments in commands:
        assert program == "posemill", program
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code in (0, None), arguments
    return len(commands)


@pytest.fixture(scope="module")
def extracted(workspace, warm_python):
    """The workspace with the run that all guides look at, as the README has it too."""
    if not (workspace / "runs/first").exists():
        command = ["posemill", "extract", "videos", "--out", "runs/first"]
        run(command, workspace, warm_python.executable)
    return workspace


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.usefixtures("warm_children")
def test_every_command_and_every_python_block_of_a_guide_runs(name, extracted, monkeypatch):
    monkeypatch.chdir(extracted)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    # The README's training has drawn its figures: they take longer than a training of a second.
    monkeypatch.setattr("posemill.training.runs.figures.draw_training", lambda *_, **__: None)
    done = [run_here(block) for block in blocks_of(name) if block.language in ("bash", "python")]
    assert sum(done) >= 3
    if name.endswith("scripts.md"):
        assert len(Path("annotation/train/0.txt").read_text().splitlines()) == 18
        assert Path("maps/train/40.png").is_file()
