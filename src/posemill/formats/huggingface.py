"""A folder for Hugging Face datasets: a row per clip, the `FRAME_ARRAYS` as nested lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from posemill.errors import ContentError
from posemill.files import reading
from posemill.formats import parquet
from posemill.formats.shared import contract
from posemill.formats.shared.contract import FRAME_ARRAYS, ClipStream, Format, Recipe, Size
from posemill.formats.shared.folders import new_folder
from posemill.formats.shared.json_text import info_text, read_info
from posemill.messages import Message
from posemill.records import PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton

_RESERVED = {"all": "full"}  # names of splits that `datasets` refuses, and what is written for them
_CARD = "README.md"
_VALUES = {"clip_id": "string", "label": "string", "fps": "float64", "num_frames": "int64",
           "extra": "string"}  # fmt: skip


class HuggingFaceFormat(Format):
    """A folder with a Parquet file per split."""

    name = "huggingface"
    files_inside = "data/*-of-*.parquet"
    layouts: tuple[str, ...] = ("holistic-543", contract.ANY)
    has_mask = True
    needs_unicode = True
    damage = (pa.ArrowException,)

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write a Parquet file per split, the dataset card and our index."""
        splits: dict[str, parquet.TableWriter] = {}
        with new_folder(clips) as index, ExitStack() as files:
            (index.folder / "data").mkdir()
            for clip in clips:
                index.place(clip)
                if clip.split not in splits:
                    schema = _schema(json.dumps(clips.header() | {"split": clip.split}))
                    file = _file_of(index.folder, clip.split)
                    table = parquet.TableWriter(file, schema, use_dictionary=False)
                    splits[clip.split] = files.enter_context(table)
                table = splits[clip.split]
                table.add(_row_of(clip, table.schema, clips.asked), len(clip))
            _write_card(index.folder, clips)
        if _RESERVED.keys() & clips.summary.splits:
            renamed = Message("the split name 'all', which Hugging Face reserves: it is 'full'")
            clips.summary.losses += (renamed,)

    def files_of(self, folder: Path, place: Path, fields: Mapping[str, Any]) -> list[Path]:
        """Return the dataset card and the file of the clip's split."""
        return [folder / _CARD, _path_of(folder, fields["split"])]

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield the clips, split by split."""
        files = sorted(path.glob("data/*-of-*.parquet"))
        if not files:
            raise ValueError("expected data/SPLIT-00000-of-00001.parquet")
        for file in files:
            with (
                reading(file, self.name, *self.damage),
                pq.ParquetFile(file, page_checksum_verification=True) as table,
            ):
                yield from _read_file(file, table)


def _path_of(folder: Path, split: str) -> Path:
    return folder / "data" / f"{_RESERVED.get(split, split)}-00000-of-00001.parquet"


def _file_of(folder: Path, split: str) -> Path:
    """Return the file of a new split; ContentError if Hugging Face would not read it."""
    if not split.replace("_", "").isalnum():
        template = "split {split!r}: Hugging Face allows letters, digits and underscores only"
        raise ContentError(template, split=split)
    path = _path_of(folder, split)
    if path.exists():
        raise ContentError(
            "split {split!r}: 'all' is reserved by Hugging Face and written as 'full', and here is "
            "a split 'full' too; write one of the two ({--splits})",
            split=split,
        )
    return path


def _schema(header: str) -> pa.Schema:
    fields = [pa.field(name, pa.type_for_alias(kind)) for name, kind in _VALUES.items()]
    for name, (kind, row) in FRAME_ARRAYS.items():
        nested = pa.list_(pa.from_numpy_dtype(kind))
        for _ in row:
            nested = pa.list_(nested)
        fields.append(pa.field(name, nested))
    fields.append(pa.field("image_paths", pa.list_(pa.string())))
    return pa.schema(fields, {"posemill": header})


def _nest(values: npt.NDArray[Any]) -> pa.Array:
    """Return one row: an array as lists in lists, however many axes it has."""
    nested = pa.array(values.reshape(-1))
    for axis in range(values.ndim - 1, -1, -1):
        outer = int(np.prod(values.shape[:axis], dtype=np.int64))
        offsets = np.arange(outer + 1, dtype=np.int32) * values.shape[axis]
        nested = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), nested)
    return nested


def _row_of(clip: PoseClip, schema: pa.Schema, recipe: Recipe) -> pa.RecordBatch:
    columns = {name: _nest(array) for name, array in contract.arrays_of(clip, recipe).items()}
    values = {
        "clip_id": clip.clip_id,
        "label": clip.label,
        "fps": clip.fps,
        "num_frames": len(clip),
        "extra": info_text(clip),
        "image_paths": list(clip.image_paths),
    }
    columns |= {name: pa.array([value], schema.field(name).type) for name, value in values.items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _write_card(folder: Path, clips: ClipStream) -> None:
    splits = {_RESERVED.get(name, name): count for name, count in clips.summary.splits.items()}
    configs = "".join(f"      - split: {name}\n        path: data/{name}-*\n" for name in splits)
    counts = "".join(f"| {name} | {count} |\n" for name, count in splits.items())
    recipe = json.dumps(clips.recipe.to_dict())
    (folder / _CARD).write_text(
        "---\nconfigs:\n  - config_name: default\n    data_files:\n" + configs + "---\n\n"
        f"# Keypoints ({clips.skeleton_name})\n\nWritten by posemill; recipe: "
        f"`{recipe}`. A row is a clip; missing points have mask False.\n\n"
        f"| split | clips |\n|---|---|\n{counts}",
        encoding="utf-8",
    )


def _read_file(path: Path, table: pq.ParquetFile) -> Iterator[PoseClip]:
    header = parquet.header_of(table)
    parquet.expect_columns(path, table, _schema(""))
    split = path.name.rsplit("-of-", 1)[0].rpartition("-")[0]
    num_lost = 0
    for batch in table.iter_batches(16):
        for row, clip_id in enumerate(batch["clip_id"].to_pylist()):
            if clip_id is None:
                num_lost += 1
            else:
                yield _clip_of(batch.slice(row, 1), str(header.get("split", split)), header)
    parquet.warn_of_lost_rows(path, num_lost)


def _clip_of(batch: pa.RecordBatch, split: str, header: dict[str, Any]) -> PoseClip:
    skeleton, clip_id = str(header["skeleton"]), str(batch["clip_id"][0])
    num_frames, num_points = batch["num_frames"][0].as_py(), get_skeleton(skeleton).num_points
    arrays = {
        name: parquet.numbers_of(batch[name], name, clip_id).reshape(
            num_frames, *contract.row_shape(name, num_points)
        )
        for name in FRAME_ARRAYS
    }
    return contract.clip_of_arrays(
        arrays,
        skeleton_name=skeleton,
        split=split,
        clip_id=clip_id,
        image_paths=tuple(map(str, batch["image_paths"][0].as_py() or ())),
        **read_info(batch["extra"][0].as_py()),
        **fields_of_recipe(header.get("recipe")),
    )
