"""One list of aliases for splits: dev, val, valid and validation are the same."""

from __future__ import annotations

import pytest

from posemill.errors import SourceError
from posemill.records import SPLIT_NAMES, match_splits, usual_split
from posemill.sources import find_clips


def test_names_in_any_case_have_a_usual_form_and_others_stay() -> None:
    assert [usual_split(name) for name in (*SPLIT_NAMES, "Val", " TEST ", "Extra")] == [
        "train", "dev", "dev", "dev", "dev", "test", "dev", "test", "Extra"
    ]  # fmt: skip


def test_a_name_means_the_split_called_so_and_else_its_aliases() -> None:
    assert match_splits(["dev"], ["train", "val"]) == (["val"], [])
    assert match_splits(["valid"], ["dev", "valid"]) == (["valid"], [])
    assert match_splits(["dev", "validation"], ["Val"]) == (["Val"], [])
    assert match_splits(["dve", "train"], ["train", "dev"]) == (["train"], ["dve"])


def test_a_folder_called_val_is_found_by_any_of_its_names(tmp_path) -> None:
    for split in ("train", "val"):
        (tmp_path / split / "clip").mkdir(parents=True)
        (tmp_path / split / "clip" / "1.png").write_bytes(b"")
    for name in ("dev", "val", "validation"):
        assert [clip.split for clip in find_clips(tmp_path, splits=[name])] == ["val"]
    with pytest.raises(SourceError, match=r"has no split 'vla'; it has: train, val"):
        find_clips(tmp_path, splits=["vla"])
