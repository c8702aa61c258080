"""Files other projects read and write, one module per format. A new one is a row in `FORMATS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from posemill.errors import ConfigError, FormatError
from posemill.formats.contract import LAYOUTS, Format, Recipe, Summary

# name -> "module:class". `detect_format` asks them in this order.
FORMATS = {
    "npz": "posemill.formats.npz:NpzFormat",
    "pkl": "posemill.formats.pkl:PklFormat",
    "pyskl": "posemill.formats.pyskl:PysklFormat",
    "txt": "posemill.formats.txt:TxtFormat",
    "openpose": "posemill.formats.openpose_json:OpenPoseFolderFormat",
    "openpose-file": "posemill.formats.openpose_json:OpenPoseFileFormat",
    "coco": "posemill.formats.coco:CocoFormat",
    "pose": "posemill.formats.pose_file:PoseFormat",
    "hdf5": "posemill.formats.hdf5:Hdf5Format",
    "webdataset": "posemill.formats.wds:WebDatasetFormat",
    "parquet": "posemill.formats.parquet:ParquetFormat",
    "huggingface": "posemill.formats.huggingface:HuggingFaceFormat",
}

__all__ = ["FORMATS", "LAYOUTS", "Format", "Recipe", "Summary", "detect_format", "get_format"]


def get_format(name: str) -> Format:
    """Return the format of that name, a key of `FORMATS`."""
    if name not in FORMATS:
        raise ConfigError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    module, _, attribute = FORMATS[name].partition(":")
    return cast(Format, getattr(import_module(module), attribute)())


def detect_format(path: Path) -> Format:
    """Return the format a file or folder is in, by its content and name."""
    if not path.exists():
        raise FormatError(f"{path}: no such file or folder")
    for name in FORMATS:
        form = get_format(name)
        if form.sniff(path):
            return form
    raise FormatError(f"{path}: none of the formats known: {', '.join(FORMATS)}; name it by --from")
