"""The front door: its names are pinned, and it opens fast."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_people import make_person, write_run

import posemill

PACKAGE = Path(posemill.__file__).parent
# Changing this list changes what users may import: say so in CHANGELOG.md.
PUBLIC_NAMES = """
SKELETON_NAMES Clip ClipAugment ClipTransform Holistic ExtractConfig FramesConfig KeypointDataset
Multigrid PoseClip PosemillError Run Skeleton TrainConfig VideoClips __version__ advise
bench_decode bench_engine cache_dataset compare draw evaluate fit frames export extract
get_skeleton import_run landmarks load_model merge open_npz open_run plot predict prepare report
show smooth solutions status temporal_shift train tune view visualize
""".split()
HEAVY = {"ai_edge_litert", "av", "cv2", "numpy", "onnx", "onnxruntime", "pandas", "psutil",
         "pyarrow", "rich", "scipy", "tflite", "torch"}  # fmt: skip


def run_python(*arguments):
    """Return the CPU seconds (user and system) of a new Python with our sources, and its stdout."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONWARNINGS": "default"}
    before = os.times()
    result = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    after = os.times()
    seconds = after.children_user + after.children_system
    return seconds - before.children_user - before.children_system, result.stdout


def least_seconds(*arguments):
    """Return the least CPU time of five runs: a busy machine only ever adds."""
    return min(run_python(*arguments)[0] for _ in range(5))


def test_the_public_names_are_the_pinned_ones_and_each_says_what_it_is():
    assert sorted(posemill.__all__) == sorted(PUBLIC_NAMES), "a new name goes into PUBLIC_NAMES"
    assert dir(posemill) == sorted(posemill.__all__)
    values = {name: getattr(posemill, name) for name in PUBLIC_NAMES}
    assert [name for name, value in values.items() if callable(value) and not value.__doc__] == []


def test_the_type_checker_sees_the_names_that_run():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        (alias.asname or alias.name, statement.module)
        for block in blocks
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    folders = {(name, "posemill") for name in posemill._PACKAGES}
    assert declared == set(posemill._PUBLIC.items()) | folders
    hidden = {"framework", "python"}  # for scripts that spell them, not for reading
    assert {name for name, _ in declared} - hidden | {"__version__"} == set(PUBLIC_NAMES)


@pytest.mark.parametrize(
    ("name", "hint"), [("Nothing", "$"), *((name, ": .*mp.tasks; ") for name in ("Image", "tasks"))]
)
def test_an_unknown_name_is_an_attribute_error_with_a_hint_for_the_newer_mediapipe(name, hint):
    with pytest.raises(AttributeError, match=f"'posemill' has no attribute '{name}'{hint}"):
        getattr(posemill, name)


def test_import_loads_nothing_heavy_sets_no_logging_and_changes_no_global():
    code = (
        "import json, logging, os, signal, sys, warnings\n"
        "def world(): return [dict(os.environ), len(logging.root.handlers), logging.root.level,\n"
        "    str(signal.getsignal(signal.SIGINT)), len(warnings.filters)]\n"
        "before = world(); import posemill; assert world() == before\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    modules = {name.partition(".")[0] for name in json.loads(run_python("-c", code)[1])}
    assert "posemill" in modules
    assert not modules & HEAVY


@pytest.mark.parametrize(
    ("command", "needed"),
    [("--help", set()), ("status", {"rich"}), ("view", {"numpy", "pyarrow", "rich"})],
)
def test_a_command_loads_nothing_heavy_that_it_does_not_need(command, needed, tmp_path):
    run = write_run(tmp_path / "run", make_person(2, skeleton_name="openpose-18"))
    assert not modules_after(command, *([str(run)] if needed else [])) & (HEAVY - needed)


def modules_after(*command):
    """The packages that a command has loaded when it ends."""
    code = (
        "import sys, json, contextlib, io\n"
        "from posemill.commands.line import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    main({list(command)!r})\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    return {name.partition(".")[0] for name in json.loads(run_python("-c", code)[1])}


def test_import_takes_under_a_fifth_of_a_second():
    bare = least_seconds("-c", "pass")
    assert least_seconds("-c", "import posemill") < max(0.2, bare + 0.05)


def test_help_answers_in_under_three_tenths_of_a_second():
    # On a slow or busy machine: in under three times what rich alone takes to import.
    library = least_seconds("-c", "import rich.console")
    assert least_seconds("-m", "posemill", "--help") < max(0.3, 3 * library)
