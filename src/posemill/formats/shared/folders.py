"""What the formats that write folders share: safe paths, and the list of the clips."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from posemill.errors import ContentError, FormatError
from posemill.files import atomic_folder
from posemill.formats.shared import json_text
from posemill.formats.shared.contract import ClipStream, Size, same_sizes
from posemill.records import SPLIT_NAMES, IntArray, PoseClip


class Index:
    """Writes `posemill.jsonl` into `handle` and says where each clip's files go."""

    def __init__(self, folder: Path, handle: IO[str], clips: ClipStream) -> None:
        self.folder, self._handle, self._clips, self._recipe = folder, handle, clips, clips.asked
        self._taken: set[str] = set()
        self._folders: set[str] = set()  # as the source calls them

    def place(self, clip: PoseClip, *, has_picture_files: bool = False) -> Path:
        """Note the clip and return the path of its file, or of the folder of its files."""
        if not self._taken:
            self._handle.write(json.dumps(self._clips.header(clip)) + "\n")
        root = self._recipe.root if has_picture_files else ""
        relative = key = picture_folder(clip, root)
        if has_picture_files and is_named_picture(clip):
            key = f"{relative}/{PurePosixPath(clip.image_paths[0]).stem}"
            if key in self._taken:  # x.png after x.jpg
                relative = key = place_of(clip)
        if self._recipe.replace:
            relative, key = self._mirror(clip, place_of(clip))
        if key in self._taken:
            template = "two clips go to {key}: {split}/{clip_id} came again"
            raise ContentError(template, key=key, split=clip.split, clip_id=clip.clip_id)
        self._taken.add(key)
        record = json_text.record_of(clip) | {"place": relative}
        self._handle.write(json_text.line_of(record, clip.clip_id) + "\n")
        return self.folder / relative

    def _mirror(self, clip: PoseClip, place: str) -> tuple[str, str]:
        """Return folder and file of a clip where folders have other names; pictures stay beside."""
        *folders, last = PurePosixPath(place).parts
        names = [PurePosixPath(path).stem for path in clip.image_paths]
        is_picture = folders and len(clip) == 1 and (names == [last] or is_named_picture(clip))
        parts = folders if is_picture else [*folders, last]
        self._folders.update(parts)
        folder = "/".join(self._recipe.replace.get(part, part) for part in parts)
        if not json_text.is_inside(folder):
            raise FormatError("{--replace}: {folder!r} leads out of the folder", folder=folder)
        return folder, f"{folder}/{last}" if is_picture else folder

    def finish(self) -> None:
        """Raise if folders were to be renamed and none was there."""
        if self._recipe.replace and self._folders.isdisjoint(self._recipe.replace):
            names, folders = map(repr, self._recipe.replace), sorted(self._folders)[:9]
            template = "{--replace}: no folder is called {replace}; there are {folders}"
            raise FormatError(template, replace=" or ".join(names), folders=", ".join(folders))


@contextmanager
def new_folder(clips: ClipStream) -> Iterator[Index]:
    """Yield the index of a temporary folder, which becomes `clips.path` if the block ends well."""
    with (
        atomic_folder(clips.path, marker=json_text.INDEX) as folder,
        (folder / json_text.INDEX).open("w", encoding="utf-8") as handle,
    ):
        index = Index(folder, handle, clips)
        yield index
        index.finish()


def write_picture_files(
    clips: ClipStream, ending: str, texts_of: Callable[[PoseClip], Iterable[str]]
) -> None:
    """Write a folder per clip with a text for each of its frames, called as its picture."""
    with new_folder(clips) as index:
        for clip in clips:
            folder = index.place(clip, has_picture_files=True)
            folder.mkdir(parents=True, exist_ok=True)
            names = frame_names(clip.image_paths, clip.frame_indices)
            for name, text in zip(names, texts_of(clip), strict=True):
                (folder / f"{name}{ending}").write_text(text, encoding="ascii")


def place_of(clip: PoseClip) -> str:
    """Return `split/clip_id` (without the split if there is none), safe below a folder.

    A backslash, which ends a folder's name elsewhere, becomes `%5C`; the index has the id itself.
    """
    place = clip.clip_id if clip.split == "all" else f"{clip.split}/{clip.clip_id}"
    place = place.replace("\\", "%5C")
    parts = PurePosixPath(place).parts
    is_safe = json_text.is_inside(place) and json_text.is_inside(clip.clip_id)
    if not clip.clip_id or not parts or "\0" in place or not is_safe:
        raise ContentError(
            "clip id {place!r} cannot be a path inside a folder: it is empty, begins with / or "
            "holds .. or a NUL; choose a format that is one file (parquet, npz, webdataset …)",
            place=place,
        )
    return "/".join(parts)


def picture_folder(clip: PoseClip, root: str) -> str:
    """Return the folder of a clip with a file for each picture, safe below a folder.

    It is `place_of`, but pictures that lie directly in `root`, or there in the folder of a split,
    have no folder of their own: their clip only borrowed the name of the one they are in. Nor has
    a picture that is a clip of its own, called as its file.
    """
    place = place_of(clip)
    if is_named_picture(clip):
        return place.rpartition("/")[0]
    if not root or not clip.image_paths or "/" in clip.clip_id:
        return place
    above, folder = PurePosixPath(root).parts, PurePosixPath(clip.image_paths[0]).parent.parts
    # A path that is not absolute began where the extraction was started, at or above the root.
    if above[len(above) - len(folder) :] == folder and clip.split == "all":
        return ""
    *rest, last = folder or ("",)
    is_split = clip.split == last.lower() and clip.clip_id == last
    return clip.split if is_split and above[len(above) - len(rest) :] == (*rest,) else place


def is_named_picture(clip: PoseClip) -> bool:
    """Return whether a clip is one picture and is called as its file, with the ending."""
    names = [PurePosixPath(path).name for path in clip.image_paths]
    return len(clip) == 1 and names == [PurePosixPath(clip.clip_id).name]


def split_and_id(folder: Path, path: Path) -> tuple[str, str]:
    """Return split and clip id of a path below a folder without an index."""
    parts = path.relative_to(folder).parts
    if len(parts) > 1 and parts[0] in SPLIT_NAMES:
        return parts[0], "/".join(parts[1:])
    return "all", "/".join(parts) or folder.name


def frame_names(image_paths: Sequence[str], frame_indices: IntArray) -> list[str]:
    """Return a file name (without ending) per frame: the picture's, or the frame's number."""
    # A backslash ends a folder's name on other systems: as in `place_of`.
    names = [PurePosixPath(path).stem.replace("\\", "%5C") for path in image_paths]
    if not names or len(set(names)) != len(names) or "" in names:
        return [f"{index:06d}" for index in frame_indices.tolist()]
    return names


def picture_files(folder: Path, fields: Mapping[str, Any], ending: str) -> list[Path]:
    """Return the files in a clip's folder, one for each of its frames."""
    names = frame_names(fields["image_paths"], fields["frame_indices"])
    return [folder / f"{name}{ending}" for name in names]


def read_clip_folders(
    path: Path, ending: str, size_wh: Size | None
) -> Iterator[tuple[list[Path], dict[str, Any], str | None]]:
    """Yield of each clip the files of its frames, in order, its fields and its skeleton if known.

    Without an index every folder with such files is a clip, of pictures of `size_wh`.
    """
    if not path.is_dir():
        raise ValueError(f"expected a folder of *{ending}")
    if header := json_text.header_in(path):
        for folder, fields in json_text.indexed_clips(path):
            yield picture_files(folder, fields, ending), fields, header.get("skeleton")
        return
    for folder in sorted({file.parent for file in path.rglob(f"*{ending}")}):
        files = sorted(folder.glob(f"*{ending}"), key=_natural_key)
        split, clip_id = split_and_id(path, folder)
        sizes_wh = same_sizes(size_wh, len(files))
        yield files, {"split": split, "clip_id": clip_id, "sizes_wh": sizes_wh}, None


def _natural_key(path: Path) -> list[tuple[int, str]]:
    pieces = re.findall(r"\d+|\D+", path.name)
    return [(int(piece[:18]), "") if piece.isdecimal() else (0, piece) for piece in pieces]
