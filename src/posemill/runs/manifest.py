"""The manifest of a run: what was asked for, of what; and the marker that a folder is ours."""

from __future__ import annotations

import dataclasses
import json
import platform
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from posemill import __version__
from posemill.errors import RunError
from posemill.files import atomic_path, cache_folder, check_own_parts, parse_json
from posemill.machine.live_files import now_text
from posemill.messages import Message

MANIFEST_NAME = "manifest.json"
LEDGER_NAME = "ledger.sqlite"
SHARDS_NAME = "shards"
LOGS_NAME = "logs"
LOCK_NAME = "lock"
OWN_NAMES = (MANIFEST_NAME, LEDGER_NAME, LOCK_NAME, LOGS_NAME)  # beside the results
ORIGIN_NAME = "origin.json"  # beside the copy of a run that lies elsewhere
FORMAT_VERSION = 1
_PACKAGES = "numpy opencv-python-headless av ai-edge-litert onnxruntime onnxruntime-gpu pyarrow"


@dataclass(frozen=True)
class Manifest:
    """What decides the content of a run."""

    skeleton_name: str
    kind: str = "extract"  # what made it: or `frames`, `import`, `merge`
    options: Mapping[str, Any] = field(default_factory=dict)  # those that decide the result
    engine: Mapping[str, str] = field(default_factory=dict)  # what `Estimator.identity` says
    source: Mapping[str, Any] = field(default_factory=dict)  # path, layout, fingerprint, counts
    versions: Mapping[str, str] = field(default_factory=lambda: current_versions())
    created_at: str = field(default_factory=now_text)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)  # its shards carry it

    def write(self, folder: Path) -> None:
        """Write it into the run's folder, whole or not at all."""
        content = {"posemill_run": FORMAT_VERSION, **dataclasses.asdict(self)}
        text = json.dumps(content, indent=2, sort_keys=True)
        with atomic_path(folder / MANIFEST_NAME) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a run's folder."""
        path = folder / MANIFEST_NAME
        check_parts(folder)
        try:
            content = parse_json(path.read_text(encoding="utf-8"))
            version = content.pop("posemill_run")
            if version != FORMAT_VERSION:
                raise ValueError(f"run format {version!r:.20}, expected {FORMAT_VERSION}")
            manifest = cls(**content)
            for setting in dataclasses.fields(cls):
                kind = str if setting.type == "str" else dict
                if not isinstance(getattr(manifest, setting.name), kind):
                    raise TypeError(setting.name)
        except FileNotFoundError as error:
            raise not_a_run(folder) from error
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(
                "{path} is not the manifest of a posemill run, or of one by another version "
                "({error}); use the posemill that made it, or choose another folder",
                path=path,
                error=error,
            ) from error
        return manifest

    @property
    def extraction(self) -> dict[str, Any]:
        """How the keypoints were found: engine, options, mode, decoder, and the rate if asked for.

        Of a merged run what all its inputs have in common; empty where it is not known.
        """
        return extraction_of(dataclasses.asdict(self))

    @property
    def runtime(self) -> str:
        """What runs the engine's networks, without its version; empty where nobody said."""
        return self.engine.get("runtime", "").partition(" ")[0]

    def differences(self, other: Manifest) -> list[str]:
        """Return one line per setting that decides the result and is not the same in `other`."""
        groups = ("skeleton_name", "options", "engine", "source")
        old, new = ({name: getattr(run, name) for name in groups} for run in (self, other))
        return _differences("", old, new)


def not_a_run(name: Path | str) -> RunError:
    """Return the error for a folder or a URI without a manifest."""
    return RunError(
        "{run} is not a posemill run: it has no manifest.json; make one with: posemill extract "
        "SOURCE --out RUN",
        run=name,
    )


def foreign_place(place: Path | str, name: str) -> RunError:
    """Return the error for a folder or a URI that holds something else than a run."""
    return RunError(
        "{place} is not empty and not a posemill run (it holds {name!r}); nothing was touched: "
        "choose another one",
        place=place,
        name=name,
    )


def _differences(name: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = {**old, **new}
        return [line for key in keys for line in _differences(key, old.get(key), new.get(key))]
    old, new = json.loads(json.dumps([old, new]))
    words = {"old": Message("none") if old is None else repr(old)}
    words["new"] = Message("none") if new is None else repr(new)
    template = "{name}: the run has {old}, now it is {new}"
    return [] if old == new else [Message(template, name=name, **words)]


def extraction_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `Manifest.extraction` of a manifest as plain values."""
    options, source = facts.get("options") or {}, facts.get("source") or {}
    if facts.get("kind") != "extract":
        runs = [extraction_of(run.get("manifest") or {}) for run in source.get("inputs") or ()]
        return runs[0] if runs and runs.count(runs[0]) == len(runs) else {}
    if "engine" not in options:
        return {}
    mode, tracking = options.get("mode"), source.get("tracking")
    if mode == "auto":  # it stays where clips were of both kinds
        if not isinstance(tracking, Mapping):  # nothing had to be decided
            tracking = {"num_alone": source.get("layout") == "pictures"}
        mode = "auto" if tracking.get("num_tracked") else "image"
        mode = mode if tracking.get("num_alone") else "video"
    return {
        "engine": options["engine"],
        "engine_options": dict(options.get("engine_options") or {}),
        "mode": mode,
        "decoder": options.get("decoder"),
        **{name: options[name] for name in ("resize", "fps", "stride") if options.get(name)},
    }


def current_versions() -> dict[str, str]:
    """Return the versions of posemill, Python and the packages that touch the numbers."""
    versions = {"posemill": __version__, "python": platform.python_version()}
    for name in _PACKAGES.split():
        versions[name] = "not installed"
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def check_parts(folder: Path) -> None:
    """Raise where a part of a run is not an ordinary file or folder."""
    check_own_parts(folder, (MANIFEST_NAME, LEDGER_NAME, LOCK_NAME), (SHARDS_NAME, LOGS_NAME))


def shard_path(folder: Path, name: str) -> Path:
    """Return where the shard of that name is; raise where a ledger names anything else.

    Ledgers come from strangers too: a name with a folder in it would lead out of the run.
    """
    path = folder / SHARDS_NAME / name
    is_plain = Path(name).name == name and name.endswith(".parquet") and "\0" not in name
    if not is_plain or path.is_symlink():
        raise RunError(
            "{ledger} names {name!r} as a shard, which is not a file of {shards}; "
            "nothing outside of a run is read or changed",
            ledger=folder / LEDGER_NAME,
            name=name,
            shards=folder / SHARDS_NAME,
        )
    return path


def check_ledger_is_there(folder: Path) -> None:
    """Raise where there are shards but no ledger to say what they hold; nothing is touched."""
    shards = () if (folder / LEDGER_NAME).exists() else (folder / SHARDS_NAME).glob("*.parquet")
    if num_shards := len(list(shards)):
        raise RunError(
            "{folder} has {num_shards} shards and no ledger.sqlite, which says what they hold; "
            "nothing was touched: put ledger.sqlite back from a copy, or choose another folder",
            folder=folder,
            num_shards=num_shards,
        )


def is_copy(folder: Path) -> bool:
    """Return whether a folder is our copy of a run that lies elsewhere, whatever is beside it."""
    return folder.absolute().parent.parent == copies_folder() and folder.name == "run"


def copies_folder() -> Path:
    """Return the folder of the copies of runs that lie elsewhere."""
    return (cache_folder() / "runs").absolute()


def _is_leftover(path: Path) -> bool:
    """Return whether a start that was killed before its manifest left a file or folder."""
    if path.name == LOCK_NAME:
        return path.read_bytes()[:6] in (b"", b'{"pid"')
    if path.name == LOGS_NAME:  # of one in the background
        return {log.name for log in path.iterdir()} <= {"detached.log"}
    return path.name.startswith(f".{MANIFEST_NAME}.")


def check_folder(folder: Path) -> bool:
    """Return whether the folder holds a run already; refuse one that holds something else."""
    if not folder.exists():
        return False
    if not folder.is_dir():
        template = "{folder} is a file; a run needs a folder of its own: choose another name"
        raise RunError(template, folder=folder)
    check_parts(folder)
    # First, as another process may write its manifest now. A copy is ours, whatever lies in it.
    paths = [] if is_copy(folder) else sorted(folder.iterdir())
    if (folder / MANIFEST_NAME).exists():
        Manifest.read(folder)
        return True
    for path in paths:
        if not _is_leftover(path):
            raise foreign_place(folder, path.name)
    return False
