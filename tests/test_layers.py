"""Who may import whom: the arrows of docs/architecture.md."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "posemill"
MIDDLE = {"sources", "decoders", "estimators", "executors", "stores", "formats", "weights"}
# What each folder may import beside the root modules and itself.
ALLOWED = {
    "weights": set(),
    "decoders": set(),
    "executors": set(),
    "stores": set(),
    "formats": set(),
    "sources": {"decoders"},
    "estimators": {"weights", "framework"},
    # mediapipe's own names, for old scripts
    "framework": set(),
    "solutions": {"estimators", "framework"},
    "python": {"solutions"},
    "clips": {"stores", "formats"},
    "jobs": MIDDLE | {"clips"},
    "inspection": MIDDLE | {"clips"},
    "training": {"stores", "decoders", "weights"},
    "api": MIDDLE | {"clips", "jobs", "inspection", "training"},
    "testing": MIDDLE,
    # beside the command line, which starts it
    "web": MIDDLE | {"clips", "jobs", "inspection", "training", "api"},
    "cli": MIDDLE | {"clips", "jobs", "inspection", "training", "api", "web", "testing"},
}
# The same inside of training, for the folders whose arrows are right already; `models` is known by
# its names, which need no torch.
ALLOWED_IN_TRAINING = {
    "config": {"models"},
    "models": {"data", "video", "extra"},
    "caching": {"data"},
}
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
    "pyarrow": {"stores", "formats"},
    "obstore": {"storage"},
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


@pytest.mark.parametrize("folder", sorted(ALLOWED_IN_TRAINING))
def test_imports_inside_of_training_follow_the_arrows(folder: str) -> None:
    allowed = ALLOWED_IN_TRAINING[folder] | {folder}
    for path in (PACKAGE / "training" / folder).rglob("*.py"):
        for name, _ in imports_of(path):
            if name.startswith("posemill.training."):
                target = name.split(".")[2]
                assert target in allowed, f"{path.name} imports {name}; {folder} may not"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_heavy_packages_are_imported_only_where_they_are_wrapped(module: Path) -> None:
    folder = module.parts[0] if len(module.parts) > 1 else ""
    for name, _ in imports_of(PACKAGE / module):
        package = name.split(".")[0]
        if package in WRAPPED:
            assert folder in WRAPPED[package], f"{module} imports {name}"


def test_the_command_line_imports_nothing_heavy_before_a_command_runs() -> None:
    for path in (PACKAGE / "cli").glob("*.py"):
        heavy = [name for name, at_top in imports_of(path) if at_top and name.split(".")[0] in
                 {*WRAPPED, "numpy", "psutil", "rich"}]  # fmt: skip
        assert not heavy, f"{path.name} imports {heavy} at start-up"


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda path: path.name
)
def test_no_folder_has_more_files_than_one_can_overlook(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= 16
