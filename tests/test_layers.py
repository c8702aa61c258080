"""Who may import whom: the arrows of docs/architecture.md."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

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
def imports_of(path):
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


# In one test each, not one a module: a thousand tests take longer than reading the package.
IMPORTS = [
    (module, module.parts[0] if len(module.parts) > 1 else "", name)
    for module in MODULES
    for name, _ in imports_of(PACKAGE / module)
]


def test_imports_follow_the_arrows():
    wrong = []
    for module, folder, name in IMPORTS:
        if str(module) in ("__init__.py", "__main__.py") or not name.startswith("posemill."):
            continue  # the front door names everything, lazily
        target = name.split(".")[1]
        if target in ALLOWED and target not in {folder, *ALLOWED.get(folder, ())}:
            wrong.append(f"{module} imports {name}; {folder or 'the root'} may not")
    assert wrong == []


def test_imports_inside_of_training_follow_the_arrows():
    level_of = {name: number for number, level in enumerate(LEVELS_OF_TRAINING) for name in level}
    wrong = []
    for module, folder, name in IMPORTS:
        if folder == "training" and name.startswith("posemill.training."):
            target = name.removeprefix("posemill.training.").split(".")[0]
            if level_of[target] > level_of[Path(module.parts[1]).stem]:
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_heavy_packages_are_imported_only_where_they_are_wrapped():
    wrong = [
        f"{module} imports {name}"
        for module, folder, name in IMPORTS
        if folder not in WRAPPED.get(name.split(".")[0], {folder})
    ]
    assert wrong == []


def test_the_command_line_imports_nothing_heavy_before_a_command_runs():
    for path in (PACKAGE / "commands").glob("*.py"):
        heavy = [name for name, at_top in imports_of(path) if at_top and name.split(".")[0] in
                 {*WRAPPED, "numpy", "psutil", "rich"}]  # fmt: skip
        assert not heavy, f"{path.name} imports {heavy} at start-up"


def test_no_folder_has_more_files_than_one_can_overlook():
    sizes = Counter(module.parent.as_posix() for module in MODULES)
    assert {folder: size for folder, size in sizes.items() if size > 16} == {}
