"""Folders of file systems that several machines share: NFS, Lustre, SMB; and `file://`.

What is taken for granted, and nothing else:

- A file that was written, flushed and closed is seen whole by whoever opens it afterwards.
- `link` to a name that exists is refused, of several at once all but one (POSIX; NFS since 2).
- A folder is listed as it is, or as it was a few seconds ago: attribute caches are no harm.

No `flock`, no SQLite, no rename over a file that decides something, no clock.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from posemill.errors import PlaceError
from posemill.files import atomic_path, sync_folder, temporary_stem
from posemill.machine.disk import disk_message
from posemill.places import Entry, Place, changed

# Types of mounts, as Linux calls them, on which locks and SQLite may not be relied on.
SHARED_TYPES = frozenset(
    "nfs nfs4 lustre cifs smb3 smbfs gpfs beegfs ceph afs glusterfs fuse.glusterfs fuse.sshfs "
    "fuse.ceph fuse.juicefs panfs wekafs".split()
)
_PIECE_BYTES = 1 << 20


class FolderPlace(Place):
    """A folder; keys are paths below it. Names that begin with a dot are left alone."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.root = Path(unquote(uri.removeprefix("file://")))

    def name_of(self, key: str = "") -> str:
        """Return the path."""
        return str(self.root / key)

    @contextmanager
    def _path(self, key: str) -> Iterator[Path]:
        """Yield the path of an object; what its file system refuses becomes `PlaceError`."""
        path = self.root / key
        try:
            yield path
        except OSError as error:
            no_links = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
            if error.errno in no_links and error.filename2:
                raise PlaceError(
                    "{path}: its file system has no hard links ({reason}), by which machines agree "
                    "who was first; choose another one, or an object store",
                    path=path,
                    reason=error.strerror,
                ) from error
            raise PlaceError(disk_message(error, str(path))) from error

    def put(self, key: str, content: bytes) -> None:
        """Write an object over what is there, by a rename."""
        with self._path(key) as path:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary:
                temporary.write_bytes(content)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object if there is none, by a link."""
        with self._path(key) as path:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f"{temporary_stem(path)}.tmp")
            try:
                with temporary.open("wb") as handle:
                    handle.write(content)
                    handle.flush()
                    os.fsync(handle.fileno())
                os.link(temporary, path)
            except FileExistsError:
                # NFS may say so when its first answer was lost: then the file is ours.
                return temporary.samefile(path) or path.read_bytes() == content
            else:
                sync_folder(path.parent)
                return True
            finally:
                temporary.unlink(missing_ok=True)

    def look(self, key: str) -> Entry | None:
        """Return size and version of a file; None if there is none."""
        with self._path(key) as path, suppress(FileNotFoundError):
            return _entry(key, path.stat())
        return None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Entry]:
        """Yield the files below a prefix, folder by folder in the order of keys."""
        with self._path(prefix):
            yield from self._walk(prefix, after)

    def _walk(self, prefix: str, after: str) -> Iterator[Entry]:
        try:
            with os.scandir(self.root / prefix) as entries:
                # `a/` of a folder sorts as its keys do: `a-b` comes before `a/b`.
                children = sorted(
                    (f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}", entry)
                    for entry in entries
                    if entry.name[0] != "."
                )
        except FileNotFoundError:
            return
        for key, entry in children:
            if key.endswith("/"):
                if not after or key >= after[: len(key)]:
                    yield from self._walk(key, after)
            elif key > after:
                with suppress(FileNotFoundError):  # gone meanwhile
                    yield _entry(key, entry.stat())

    def delete(self, key: str) -> None:
        """Remove a file."""
        with self._path(key) as path:
            path.unlink(missing_ok=True)

    def read(self, key: str, version: str | None = None) -> Iterator[bytes]:
        """Yield a file in pieces."""
        with self._path(key) as path:
            try:
                handle = path.open("rb")
            except FileNotFoundError as error:
                raise changed(path) from error
            with handle:
                if version not in (None, _entry(key, os.fstat(handle.fileno())).version):
                    raise changed(path)
                while piece := handle.read(_PIECE_BYTES):
                    yield piece


def _entry(key: str, status: os.stat_result) -> Entry:
    version = f"{status.st_mtime_ns:x}-{status.st_size:x}"
    return Entry(key, status.st_size, version, status.st_mtime)


def is_shared(folder: Path) -> bool:
    """Return whether a folder, there or not, is on a disk that is known to be a shared one."""
    import psutil  # here: others would start later

    wanted, mounts = folder.resolve(), dict[Path, str]()
    with suppress(OSError):
        for mount in psutil.disk_partitions(all=True):  # of two at one place the later is on top
            mounts[Path(mount.mountpoint)] = mount.fstype
    kinds = (mounts[path] for path in (wanted, *wanted.parents) if path in mounts)
    return next(kinds, None) in SHARED_TYPES
