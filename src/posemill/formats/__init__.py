"""Files other projects read and write, one module per format. A new one is a row in `FORMATS`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from posemill import plugins
from posemill.errors import FormatError
from posemill.files import reading, refuse_pipe
from posemill.formats.shared.contract import ENDINGS, ending_of
from posemill.formats.shared.contract import Format as Format
from posemill.formats.shared.folders import picture_files
from posemill.formats.shared.json_text import INDEX, header_in, indexed_clips
from posemill.messages import Message

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
    "csv": "posemill.formats.tidy_csv:CsvFormat",
    "huggingface": "posemill.formats.huggingface:HuggingFaceFormat",
}


def known_formats() -> list[str]:
    """Return the names of `FORMATS` and of other packages' (entry points `posemill.formats`)."""
    return plugins.names_of("format", FORMATS)


def file_endings() -> set[str]:
    """Return all endings of files of the formats."""
    return {*ENDINGS, *(each.suffix for _, each in plugins.load_all("format", FORMATS))} - {""}


def get_format(name: str) -> Format:
    """Return the format of that name, one of `known_formats`."""
    return cast(Format, plugins.load("format", FORMATS, name)())


def format_for(out: Path, chosen: str | None = None) -> str:
    """Return the name of the format, `chosen` or by the ending; an error if they contradict."""
    ending = ending_of(out)
    formats = plugins.load_all("format", FORMATS) if ending else ()
    names = [name for name, each in formats if each.suffix == ending]
    if chosen:
        get_format(chosen)
        if names and chosen not in names and not out.is_dir():
            template = "{out}: {ending!r} is the ending of {names}, not of {chosen}; change {--out}"
            values = {"ending": ending, "names": " or ".join(names), "chosen": chosen}
            raise FormatError(template, out=out, **values)
        return chosen
    if ending[1:] in names:
        return ending[1:]
    if len(names) != 1:
        what = Message("its ending names none")
        if names:
            what = Message("{ending!r} could be {names}", ending=ending, names=" or ".join(names))
        template = "{out}: {what}; give the format by {--to}, one of {names}"
        raise FormatError(template, out=out, what=what, names=", ".join(names or known_formats()))
    return names[0]


def own_files(folder: Path) -> list[Path]:
    """Return the files that an export wrote into a folder with our index."""
    with reading(folder / INDEX, "JSON"):
        form = get_format(header_in(folder).get("format", ""))
        files = [folder / INDEX]
        for place, fields in indexed_clips(folder):
            if ending := form.picture_ending:
                files += picture_files(place, fields, ending)
            files += form.files_of(folder, place, fields)
        return files


def detect_format(path: Path) -> Format:
    """Return the format a file or folder is in, by its content and name."""
    if not path.exists():
        raise FormatError("{path}: no such file or folder", path=path)
    refuse_pipe(path)
    for _, make in plugins.load_all("format", FORMATS):
        form = cast(Format, make())
        if form.sniff(path):
            return form
    seen, advice = "", ""
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir())
        if not names:
            template = "{path}: the folder is empty; expected a run or files of a format"
            raise FormatError(template, path=path)
        shown = ", ".join(map(repr, names[:3])) + (" …" if len(names) > 3 else "")
        seen = Message("no run (it holds {shown}), and ", shown=shown)
        advice = Message(
            "name a run or a file in it, find keypoints of pictures by posemill extract, or "
        )
    template = "{path}: {seen}none of the formats known: {known}; {advice}name it by {--from}"
    known = ", ".join(known_formats())
    raise FormatError(template, path=path, seen=seen, known=known, advice=advice)
