"""`python -m tools.preset_table`: the presets in docs/training.md, written from the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posemill.training.config.run_settings import (
    COMPILES_ON_GPU,
    MOST_WORKERS,
    PRESETS,
    preset_values,
)

FILE = Path(__file__).parent.parent / "docs" / "training.md"
BEGIN, END = "<!-- presets: python -m tools.preset_table -->", "<!-- end of presets -->"


def preset_table() -> str:
    """Return the table as Markdown: a row for each setting, a column for each preset."""
    lines = ["| | " + " | ".join(f"`{name}`" for name in PRESETS) + " |"]
    lines.append("|---" * (len(PRESETS) + 1) + "|")
    lines += [f"| {label} | {' | '.join(map(_word, values))} |" for label, values in _rows()]
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Return the page with the table of today between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{preset_table()}\n{END}{after}"


def _rows() -> Iterator[tuple[str, list[Any]]]:
    clips = [preset_values(name) for name in PRESETS]
    videos = [preset_values(name, kind="video") for name in PRESETS]
    yield "`ims_per_gpu`: clips of a pass", [values["micro_batch"] for values in clips]
    yield "`gradient_accumulation_steps`", [_passes(values) for values in clips]
    yield "so `batch_size` is", [values["batch_size"] for values in clips]
    yield (
        "the same of video",
        [
            f"{values['micro_batch']} x {_passes(values)} = {values['batch_size']}"
            for values in videos
        ],
    )
    yield "`num_workers`, within the cores", [MOST_WORKERS[name] for name in PRESETS]
    for name in ("prefetch_factor", "pin_memory", "persistent_workers"):
        yield f"`{name}`", [values[name] for values in clips]
    yield "`precision` (`use_fp16` is `mixed`)", [values["precision"] for values in clips]
    yield (
        "`compile` on a GPU (on a CPU: never by itself)",
        [name in COMPILES_ON_GPU for name in PRESETS],
    )
    yield "`activation_checkpointing`", [values["activation_checkpointing"] for values in clips]
    yield "`cache`", [values["cache"] for values in clips]
    yield "`cache` of video", [values["cache"] for values in videos]
    for name in ("eval_every", "save_every"):
        yield f"`{name}`", [values[name] for values in clips]


def _passes(values: Any) -> int:
    return -(-int(values["batch_size"]) // int(values["micro_batch"]))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


if __name__ == "__main__":
    FILE.write_text(with_table(FILE.read_text(encoding="utf-8")), encoding="utf-8")
