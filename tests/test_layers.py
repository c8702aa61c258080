"""Who may import whom: the arrows of docs/architecture.md."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "posemill"
MIDDLE = {"sources", "decoders", "estimators", "executors", "runs", "formats", "weights"}
# What each folder may import beside the root modules and itself.
ALLOWED = {
    "weights": set(),
    "decoders": set(),
    "executors": set(),
    "runs": set(),
    "formats": set(),
    "sources": {"decoders"},
    "estimators": {"weights", "framework"},
    # mediapipe's own names, for old scripts
    "framework": set(),
    "solutions": {"estimators", "framework"},
    "python": {"solutions"},
    "clips": {"runs", "formats"},
    "jobs": MIDDLE | {"clips"},
    "inspection": MIDDLE | {"clips"},
    "training": {"runs", "decoders", "sources", "weights"},
    "testing": MIDDLE,
    # both on top: `serve` starts the page, which stops and continues runs as the commands do
    "web": MIDDLE | {"clips", "jobs", "inspection", "training", "commands"},
    "commands": MIDDLE | {"clips", "jobs", "inspection", "training", "web", "testing"},
}
# Inside of training each level imports those before it, and itself.
LEVELS_OF_TRAINING = (
    {"extra", "lazy_dynamo", "bf16", "loggers"},
    {"config"},
    {"precision", "runtime", "ranks"},
    {"data", "video"},
    {"models"},
    {"tasks"},
    {"record"},
    {"multigrid"},
    {"loop"},
    {"fitting"},
    {"runs"},
    {"tuning"},
    {"launch"},
    {"front"},
)
# Heavy packages, and the only folders that wrap them.
WRAPPED = {
    "torch": {"training", "estimators"},
    "torchcodec": {"decoders"},
    "decord": {"decoders"},
    "ray": {"executors"},
    "cv2": {"decoders", "estimators", "inspection", "solutions"},
    "ai_edge_litert": {"estimators"},
    "onnxruntime": {"estimators"},
    "onnx": {"weights"},
    "tflite": {"weights"},
    "av": {"decoders", "inspection", "testing"},
    "PIL": {"inspection"},
    "pyarrow": {"runs", "formats"},
    "obstore": {"places"},
}


@cache
def imports_of(path: Path) -> list[tuple[str, bool]]:
    """Return (module, is at module level) for every import in a file."""
    tree = ast.parse(path.read_text())
    top_level = set(tree.body)
    found = []
    for node in ast.walk(tree):
        at_top = node in top_level
        if isinstance(node, ast.Import):
            found += [(alias.name, at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, at_top))
            if node.module == "posemill":
                found += [(f"posemill.{alias.name}", at_top) for alias in node.names]
    return found


MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports_follow_the_arrows(module: Path) -> None:
    folder = module.parts[0] if len(module.parts) > 1 else ""
    if module.name in ("__init__.py", "__main__.py") and not folder:
        return  # the front door names everything, lazily
    for name, _ in imports_of(PACKAGE / module):
        if not name.startswith("posemill."):
            continue
        target = name.split(".")[1]
        if target not in ALLOWED or target == folder:
            continue
        allowed = ALLOWED.get(folder, set())
        assert target in allowed, f"{module} imports {name}; {folder or 'the root'} may not"


@pytest.mark.parametrize("module", [m for m in MODULES if m.parts[0] == "training"], ids=str)
def test_imports_inside_of_training_follow_the_arrows(module: Path) -> None:
    level_of = {name: number for number, level in enumerate(LEVELS_OF_TRAINING) for name in level}
    own = Path(module.parts[1]).stem
    for name, _ in imports_of(PACKAGE / module):
        target = name.removeprefix("posemill.training.").split(".")[0]
        if name.startswith("posemill.training."):
            assert level_of[target] <= level_of[own], f"{module} imports {name}; {own} may not"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_heavy_packages_are_imported_only_where_they_are_wrapped(module: Path) -> None:
    folder = module.parts[0] if len(module.parts) > 1 else ""
    for name, _ in imports_of(PACKAGE / module):
        package = name.split(".")[0]
        if package in WRAPPED:
            assert folder in WRAPPED[package], f"{module} imports {name}"


def test_the_command_line_imports_nothing_heavy_before_a_command_runs() -> None:
    for path in (PACKAGE / "commands").glob("*.py"):
        heavy = [name for name, at_top in imports_of(path) if at_top and name.split(".")[0] in
                 {*WRAPPED, "numpy", "psutil", "rich"}]  # fmt: skip
        assert not heavy, f"{path.name} imports {heavy} at start-up"


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda path: path.name
)
def test_no_folder_has_more_files_than_one_can_overlook(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= 16
