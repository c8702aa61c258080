"""What every format has: the contract, the recipe recorded in the files, checks all readers share.

Writers take a stream of `PoseClip` and hold at most one clip (plus one small entry per clip) in
memory. Readers trust nothing: whatever is in the file, the caller sees clips or a `FormatError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from posemill import __version__, skeletons
from posemill.blocks import ClipBlock
from posemill.errors import ConfigError, ContentError
from posemill.files import naming, reading
from posemill.formats.shared.json_text import header_in
from posemill.formats.shared.losses import WORLD, Loss
from posemill.geometry import Fill, check_scores, fill_missing, find_points
from posemill.npz.mapped import check_array
from posemill.plugins import unknown
from posemill.records import NORMALIZATIONS, SMOOTHINGS, PoseClip, fields_of_recipe

ANY = "any"  # among the layouts of a format: whatever skeleton the clips have
FILLS: tuple[str, ...] = get_args(Fill)
# Other endings of the same files.
ENDINGS = {".hdf5": ".h5", ".hdf": ".h5", ".pickle": ".pkl"}
# Half of a surrogate pair; U+DC80 to U+DCFF are bytes of file names that are not UTF-8.
_HALF_A_CHARACTER = re.compile("[\ud800-\udc7f\udd00-\udfff]")

Size = tuple[int, int]


@dataclass(frozen=True)
class Recipe:
    """What is done to the clips on their way into a file; recorded there."""

    layout: str | None = None  # skeleton name; None: what the format usually holds
    normalize: str = "none"
    interpolate: int = 0  # gaps of up to this many frames become found points
    smooth: str = "none"
    fill: Fill | None = None  # for missing points in formats with a mask; None: the format's way
    # Folders that are called otherwise in formats with a file per picture: `{"frames":
    # "annotation"}` writes `train/annotation/x.txt` for `train/frames/x.jpg`.
    replace: Mapping[str, str] = field(default_factory=dict)
    extraction: Mapping[str, Any] = field(default_factory=dict)  # `Manifest.extraction` of the run
    root: str = ""  # the folder the pictures were found in, if known; not recorded
    has_people: bool = False  # any clip may show several people; not recorded

    def __post_init__(self) -> None:
        if self.layout is not None:
            object.__setattr__(self, "layout", skeletons.full_name(self.layout))
        choices = {"normalize": NORMALIZATIONS, "smooth": SMOOTHINGS, "fill": (None, *FILLS)}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), filter(None, known))
        if self.interpolate < 0:
            template = "{--interpolate}: expected 0 or more frames, got {interpolate}"
            raise ConfigError(template, interpolate=self.interpolate)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        empty = {name for name in ("replace", "extraction") if not getattr(self, name)}
        left_out = {"root", "has_people", *empty}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def after(self, clip: PoseClip) -> Recipe:
        """Return the recipe to record: this one, and what was done to the clip before it."""
        normalize = self.normalize if clip.normalized == "none" else clip.normalized
        interpolate = max(self.interpolate, clip.interpolated)
        smooth = self.smooth if clip.smoothed == "none" else clip.smoothed
        return replace(self, normalize=normalize, interpolate=interpolate, smooth=smooth)


@dataclass
class Summary:
    """What a writer wrote."""

    path: Path
    format_name: str
    num_clips: int = 0
    num_frames: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    losses: tuple[str, ...] = ()  # what was in the clips and is not in the file
    recipe: dict[str, Any] = field(default_factory=dict)  # all that was done to the clips

    def count(self, clip: PoseClip) -> None:
        """Add a clip to the totals."""
        self.num_clips += 1
        self.num_frames += len(clip)
        self.splits[clip.split] = self.splits.get(clip.split, 0) + 1


class Format:
    """A format, without state: what it holds and is known by, `write_clips` and `read_clips`."""

    name: str
    suffix = ""  # of the file; empty for a folder
    # What it is known by: of a file its first bytes, or else its ending; of a folder our list of
    # its clips, or else a file inside.
    first_bytes = b""
    file_ending = ""  # where it is not the suffix
    files_inside = ""
    picture_ending = ""  # of the files where each picture has its own
    layouts: tuple[str, ...]  # skeletons it can hold, the usual one first; `ANY`: all others too
    has_pixels = False  # True: coordinates are pixels of the picture, so sizes must be known
    has_mask = False  # True: `fill` chooses what stands for missing points
    holds_people = False  # True: all people of a frame, not only the one that stands for it
    mirrors = False  # True: a file per picture, in folders called as those of the source
    holds_world = False  # True: landmarks in metres too
    needs_unicode = False  # True: names that are no Unicode cannot be written
    facts: Mapping[str, str] = {}  # what else the header says
    losses: tuple[str, ...] = ()  # what a round trip loses of any clip
    may_lose: tuple[Loss, ...] = ()  # what it loses of clips that have it
    damage: tuple[type[Exception], ...] = ()  # what broken bytes raise beside `CORRUPT`

    @property
    def all_losses(self) -> list[str]:
        """What a round trip may lose, in words."""
        return [*self.losses, *(loss.words for loss in self.may_lose)]

    def holds(self, skeleton_name: str) -> bool:
        """Return whether it can hold a skeleton."""
        return skeleton_name in self.layouts or ANY in self.layouts

    def sniff(self, path: Path) -> bool:
        """Return True if the path looks like this format; reads a few bytes at most."""
        if path.is_dir():
            has_file = bool(self.files_inside) and any(path.glob(self.files_inside))
            return has_file or header_in(path).get("format") == self.name
        with path.open("rb") as handle:
            start = handle.read(1 << 16)
        if self.first_bytes:
            return start.startswith(self.first_bytes)
        ending = self.file_ending or self.suffix
        return bool(ending) and ending_of(path) == ending and self.begins_like(start)

    def begins_like(self, start: bytes) -> bool:
        """Return whether a file with its ending, which begins so, is in it."""
        return True

    def files_of(self, folder: Path, place: Path, fields: Mapping[str, Any]) -> list[Path]:
        """Return the files it writes for a clip of a folder's index; no other is replaced."""
        return []

    def write(self, clips: Iterable[PoseClip], path: Path, *, recipe: Recipe) -> Summary:
        """Write the clips; `path` is the old state or the whole new one, never a part."""
        stream = ClipStream(self, clips, path, recipe)
        with naming(path):
            self.write_clips(stream, path)
        return stream.summary

    def read(self, path: Path, *, size_wh: Size | None = None) -> Iterator[PoseClip]:
        """Yield the clips. `size_wh`: the pictures' size, for files of pixels that lack it."""
        with reading(path, self.name, *self.damage):
            clip = None
            for clip in self.read_clips(path, size_wh):
                yield clip
            if clip is None:
                raise ContentError("holds no clips; expected at least one")

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write clips, checked and counted as they are taken; ContentError if they do not fit."""
        raise NotImplementedError

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips; ContentError, without the file's name, for what a user can mend."""
        raise NotImplementedError


class ClipStream:
    """The clips that a format writes: each is checked when it is taken, and counted after that.

    `asked` is the recipe that was given, `recipe` that and what was done to the clips so far.
    """

    def __init__(self, form: Format, clips: Iterable[PoseClip], path: Path, recipe: Recipe) -> None:
        self.summary, self.asked, self.recipe = Summary(path, form.name), recipe, recipe
        self.path, self._form, self._clips = path, form, clips
        self.skeleton_name = ""  # of all the clips
        self.keeps_world = False  # whether the file has landmarks in metres: as its first clip
        self._kinds: tuple[str, str] | None = None  # their skeleton and normalisation
        self._losses: dict[str, None] = {}  # of clips so far

    def __iter__(self) -> Iterator[PoseClip]:
        for clip in self._clips:
            self._check(clip, [clip])
            yield clip
            self._count([clip])
        self._finish()

    def blocks(self, blocks: Iterable[ClipBlock]) -> Iterator[ClipBlock]:
        """Yield clips that come many at a time, checked and counted likewise."""
        for block in blocks:
            frames = block.frames
            is_finite = not np.isinf(frames.points).any() and np.isfinite(frames.scores).all()
            # Clips are looked at one by one where one of them must be named.
            num_checked = 1 if is_finite and not self._form.has_pixels else None
            self._check(frames, block.clips[:num_checked])
            yield block
            self._count(block.clips)
        self._finish()

    @property
    def is_first(self) -> bool:
        """Whether the clip taken last is the first."""
        return not self.summary.num_clips

    def header(self, clip: PoseClip | None = None) -> dict[str, Any]:
        """Return what the file says about itself by the clips taken so far, or about one clip."""
        recipe = self.recipe if clip is None else self.asked.after(clip)
        return {
            "posemill": __version__,
            "format": self._form.name,
            "skeleton": self.skeleton_name if clip is None else clip.skeleton_name,
            "recipe": recipe.to_dict(),
            **self._form.facts,
        }

    def _check(self, frames: PoseClip, clips: Sequence[PoseClip]) -> None:
        """Check clips, and note what is true of all their frames."""
        if not self.skeleton_name:
            self.keeps_world = self._form.holds_world and frames.world is not None
        for clip in clips:
            self._check_points(clip)
        self.recipe = self.recipe.after(frames)

    def _count(self, clips: Sequence[PoseClip]) -> None:
        """Count clips that were written, and note what they lost."""
        may_lose = (*self._form.may_lose, *(() if self.keeps_world else (WORLD,)))
        for clip in clips:
            self.summary.count(clip)
            for loss in may_lose:
                if loss.words not in self._losses and loss.is_in(clip):
                    self._losses[loss.words] = None

    def _check_points(self, clip: PoseClip) -> None:
        form, clip_id = self._form, clip.clip_id
        kinds = clip.skeleton_name, clip.normalized
        self._kinds = self._kinds or kinds
        self.skeleton_name = self._kinds[0]
        pairs = zip(kinds, self._kinds, strict=True)
        value, before = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        # Bytes that are not UTF-8, as Python shows them.
        texts = (clip_id, clip.split, clip.label or "", *clip.image_paths)
        strange = (text for text in texts if text.encode(errors="ignore").decode() != text)
        strange_text = next(strange, "") if form.needs_unicode else ""
        is_finite = not np.isinf(clip.points).any() and np.isfinite(clip.scores).all()
        has_sizes = not len(clip) or (clip.sizes_wh > 0).all()
        faults = {
            "clip {clip_id!r} is {value!r}, the clips before it are {before!r}; one file "
            "holds one skeleton and one normalisation: choose a layout for all": value != before,
            "clip {clip_id!r}: expected Unicode, got {text!r}; make a run of it first "
            "(posemill import), where such bytes are written as \\xNN": bool(strange_text),
            "{name} holds {layouts}, clip {clip_id!r} is {skeleton}": not form.holds(
                clip.skeleton_name
            ),
            "{name} holds pixels of the picture, but clip {clip_id!r} is normalised by "
            "{normalized!r}: take the run it was made of, or choose npz, pkl, hdf5, "
            "webdataset, parquet or huggingface": form.has_pixels and clip.normalized != "none",
            "clip {clip_id!r} holds infinity or a score that is no number": not is_finite,
            "{name} holds pixels, but the picture size of clip {clip_id!r} is not known; give "
            "it by {--size:WIDTHxHEIGHT}": form.has_pixels and not has_sizes,
        }
        for template, is_fault in faults.items():
            if is_fault:
                raise ContentError(
                    template,
                    name=form.name,
                    layouts=" or ".join(form.layouts),
                    clip_id=clip_id,
                    skeleton=clip.skeleton_name,
                    normalized=clip.normalized,
                    value=value,
                    before=before,
                    text=strange_text[:200],
                )

    def _finish(self) -> None:
        """Raise if there was nothing to write; note what is left out."""
        if not self.summary.num_clips:
            raise ContentError("no clips to write; expected at least one")
        self.summary.losses += (*self._form.losses, *self._losses)


def ending_of(path: Path) -> str:
    """Return the usual ending of files that end like this one."""
    return ENDINGS.get(path.suffix.lower(), path.suffix.lower())


def known_skeleton(name: str) -> skeletons.Skeleton:
    """Return the skeleton of a name in a file."""
    if not skeletons.is_skeleton(name):
        template = "unknown skeleton {name!r}; known: {known} (others come with their engine)"
        names = ", ".join(skeletons.skeleton_names())
        raise ContentError(template, name=str(name)[:80], known=names)
    return skeletons.get_skeleton(name)


def make_clip(
    points: npt.NDArray[Any],
    scores: npt.NDArray[Any] | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    **fields: Any,
) -> PoseClip:
    """Return a checked clip from what a file held; ValueError if it is none.

    Points are `(frames, keypoints, 2 or 3)`; without scores they are 1 where found, without a mask
    NaN and all-zero points are missing. `fields` are the other ones of `PoseClip`; image paths that
    are all empty are none.
    """
    clip_id = str(fields.get("clip_id", ""))
    shapes = [("frames", "points", dims) for dims in (2, 3)]
    check_array(points, f"points of {clip_id[:80]}", "fiu", *shapes)
    full = np.zeros((*points.shape[:2], 3), np.float32)
    with np.errstate(all="ignore"):
        full[..., : points.shape[2]] = points
    paths = fields.pop("image_paths", ())
    for text in (clip_id, *paths):
        if _HALF_A_CHARACTER.search(text):
            raise ValueError(f"{text[:200]!r} is no name: it holds half a character")
    try:
        found = find_points(full, mask)
        full[~found] = np.nan
        plain = check_scores(found if scores is None else scores, found)
        paths = paths if any(paths) else ()
        return PoseClip(points=full, scores=plain, image_paths=paths, **fields)
    except ValueError as error:
        raise ValueError(f"clip {clip_id[:80]!r}: {error}") from error


# What a frame has, in the formats of arrays: name -> (type, shape; None: the number of keypoints).
FRAME_ARRAYS: dict[str, tuple[Any, tuple[int | None, ...]]] = {
    "keypoints": (np.float32, (None, 3)),
    "scores": (np.float32, (None,)),
    "mask": (np.bool_, (None,)),
    "frame_index": (np.int64, ()),
    "sizes_wh": (np.int32, (2,)),
}


def row_shape(name: str, num_points: int) -> tuple[int, ...]:
    """Return the shape of a frame in one of `FRAME_ARRAYS`."""
    return tuple(num_points if length is None else length for length in FRAME_ARRAYS[name][1])


def arrays_of(clip: PoseClip, recipe: Recipe) -> dict[str, npt.NDArray[Any]]:
    """Return the `FRAME_ARRAYS` of a clip."""
    points = fill_missing(clip.points, recipe.fill or "zero")
    arrays = (points, clip.scores, clip.mask, clip.frame_indices, clip.sizes_wh)
    return as_frame_arrays(*arrays)


def as_frame_arrays(*arrays: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return arrays in the order of `FRAME_ARRAYS` by their names, in their types."""
    return {
        name: array.astype(kind, copy=False)
        for (name, (kind, _)), array in zip(FRAME_ARRAYS.items(), arrays, strict=True)
    }


def clip_of_arrays(arrays: Mapping[str, npt.NDArray[Any]], **fields: Any) -> PoseClip:
    """Return the clip of `arrays_of`, types and shapes checked; with `fields` of `PoseClip`."""
    num_points = skeletons.get_skeleton(fields["skeleton_name"]).num_points
    for name, (kind, _) in FRAME_ARRAYS.items():
        shape = (len(arrays["keypoints"]), *row_shape(name, num_points))
        check_array(arrays[name], name, np.dtype(kind).kind, shape)
    fields["frame_indices"] = arrays["frame_index"].astype(np.int64)
    fields["sizes_wh"] = arrays["sizes_wh"].astype(np.int32)
    return make_clip(arrays["keypoints"], arrays["scores"], arrays["mask"], **fields)


def same_sizes(size_wh: Size | None, num_frames: int) -> npt.NDArray[np.int32]:
    """Return `(frames, 2)` of one size, 0 where it is not known."""
    return np.tile(np.array(size_wh or (0, 0), np.int32), (num_frames, 1))


def header_fields(header: Mapping[str, Any], num_points: int, path: Path) -> dict[str, Any]:
    """Return the skeleton, checked, and what was done to clips, for `make_clip`, of a header.

    Where none is named it is the only one of ours with so many points, which is said on stderr.
    """
    name = header.get("skeleton")
    if name is None and (name := skeletons.guess_skeleton(num_points, path)) is None:
        ours = map(skeletons.get_skeleton, skeletons.SKELETON_NAMES)
        counts = sorted(known.num_points for known in ours)
        template = "no skeleton is named, so expected {counts} points a frame, got {num_points}"
        raise ContentError(template, counts=counts, num_points=num_points)
    expected = known_skeleton(name).num_points
    if expected != num_points:
        raise ValueError(f"expected {expected} points a frame, got {num_points}")
    return {"skeleton_name": name, **fields_of_recipe(header.get("recipe"))}
