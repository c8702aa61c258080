"""What a command may replace: only what posemill wrote for the same source, unchanged since.

Everything else that has the name of an output is somebody's work and stays, unless `--overwrite`
is given. What was written is recorded in the cache folder, a file of lines for each folder. Where
the record is lost, `--overwrite` has to be given once more; nothing else happens.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from posemill.errors import ConfigError
from posemill.files import cache_folder, not_ours, readable
from posemill.messages import Message
from posemill.places import uri_of

# Of files that nobody means as a folder; 2014.T or v1.0 are names like any other.
_FILE_ENDINGS = frozenset(
    ".txt .npy .npz .pkl .pickle .json .jsonl .csv .tsv .mat .h5 .hdf5 .parquet .tar .zip .gz .xml "
    ".html .toml .yaml .yml .log .md .mp4 .avi .mov .mkv .webm .gif .png .jpg .jpeg .pt .pth "
    ".onnx .bin .xlsx".split()
)
_RUN_FILES = (
    "manifest.json .manifest.json.* ledger.sqlite ledger.sqlite-* lock logs/*.log shards/*part-* "
    "lease/**/* records/**/* snapshots/**/*".split()
)


def expect_folder(out: os.PathLike[str] | str, *, kind: str) -> None:
    """Raise where a folder to be written, of `kind`, has the name of a file and is not there."""
    path = Path(out)
    is_key = uri_of(out) is not None  # at a URI there are no folders
    if path.suffix.lower() in _FILE_ENDINGS and not is_key and not path.is_dir():
        raise ConfigError(
            "{path}: {kind} is a folder, and {suffix} is the ending of a file; give a name "
            "without it: {--out} {with_suffix!q}",
            path=path,
            kind=kind,
            suffix=path.suffix,
            with_suffix=path.with_suffix(""),
        )


def claim_run(folder: Path) -> None:
    """Raise where the folder of a run that is to be replaced holds anything else."""
    _refuse_foreign(folder, (path for part in _RUN_FILES for path in folder.glob(part)))


def _refuse_foreign(folder: Path, own: Iterable[Path]) -> None:
    for path in sorted({*folder.rglob("*")}.difference(own)):
        if path.is_symlink() or not path.is_dir():
            raise ConfigError(
                "{folder} also holds {name!r}, which posemill did not write there; nothing was "
                "touched: move it elsewhere, or choose another folder",
                folder=folder,
                name=readable(path.relative_to(folder).as_posix()),
            )


class Outputs:
    """The files and folders that one command writes, made of the runs or files `sources`."""

    def __init__(self, *sources: os.PathLike[str] | str, overwrite: bool = False) -> None:
        self._source = " ".join(os.path.realpath(source) for source in sources)
        self._overwrite = overwrite
        self._records: dict[Path, _Record] = {}

    def claim_file(self, path: Path, *, advice: str = Message("choose another name")) -> None:
        """Raise where a folder, a pipe or a device is at `path`, or a file that is not ours."""
        if path.is_dir():
            raise ConfigError("{path} is a folder; expected the name of a file", path=path)
        if path.exists() and not path.is_file():
            raise ConfigError("{path} is not a file; name a file to write", path=path)
        if os.path.lexists(path) and not self._is_replaceable(path):
            raise ConfigError(
                "{path} is a file that posemill did not write for this source; {advice}, or "
                "replace it by {--overwrite:True}",
                path=path,
                advice=advice,
            )

    def claim_folder(
        self, path: Path, *, marker: str, own: Callable[[Path], Iterable[Path]]
    ) -> None:
        """Raise where a folder may not be replaced, with all that is in it.

        One without the file `marker`, which only folders of posemill have, never is; nor one with
        files beside those of posemill, which `own` returns.
        """
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            what = "a link" if path.is_symlink() else "a file"
            template = "{path} is {what}, expected a folder; choose another name"
            raise ConfigError(template, path=path, what=what)
        if not path.exists() or not any(path.iterdir()):
            return
        if not (path / marker).is_file():
            raise not_ours(path, marker)
        is_replaceable = self._is_replaceable(path)
        if self._overwrite or not is_replaceable:
            _refuse_foreign(path, own(path))
        if not is_replaceable:
            raise ConfigError(
                "{path} is there already, and posemill did not write all that is in it for this "
                "source; choose another name, or replace the whole folder by {--overwrite:True}",
                path=path,
            )

    def record(self, path: Path) -> None:
        """Note that a file or folder was written by this command: the next time it is ours."""
        self._record_of(path).add(path.name, f"{_state_of(path)} {self._source}")

    @contextmanager
    def writing_file(self, path: Path) -> Iterator[None]:
        """Claim a file that is written inside the block, and record it."""
        self.claim_file(path)
        yield
        self.record(path)

    def _is_replaceable(self, path: Path) -> bool:
        if self._overwrite:
            return True
        if path.is_symlink():
            return False
        return self._record_of(path).lines.get(path.name) == f"{_state_of(path)} {self._source}"

    def _record_of(self, path: Path) -> _Record:
        folder = Path(os.path.realpath(path.parent))
        if folder not in self._records:
            self._records[folder] = _Record(folder)
        return self._records[folder]


class _Record:
    """The outputs in one folder: name, then state and source."""

    def __init__(self, folder: Path) -> None:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._path = cache_folder() / "outputs" / f"{name}.jsonl"
        self._is_tidy = False
        self.lines: dict[str, str] = {}
        with suppress(OSError, ValueError):
            for line in self._path.read_text("utf-8").splitlines():
                name, written = json.loads(line)
                self.lines[name] = written
        self.lines = {name: each for name, each in self.lines.items() if (folder / name).exists()}

    def add(self, name: str, written: str) -> None:
        """Add a line, the first time without what was replaced or removed.

        A cache that cannot be written costs an `--overwrite`, no more.
        """
        self.lines[name] = written
        mode, lines = ("a", {name: written}) if self._is_tidy else ("w", self.lines)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as handle:
                handle.writelines(json.dumps(line) + "\n" for line in lines.items())
            self._is_tidy = True


def _state_of(path: Path) -> str:
    """Return what changes with a file's content, or with that of any file in a folder."""
    if not path.is_dir():
        about = path.stat()
        return f"{about.st_size}-{about.st_mtime_ns}"
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            about = os.lstat(os.path.join(folder, name))  # noqa: PTH118
            line = f"{os.path.relpath(folder, path)}/{name} {about.st_size}-{about.st_mtime_ns}\n"
            digest.update(os.fsencode(line))
    return digest.hexdigest()
