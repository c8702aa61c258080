import shutil
from pathlib import Path

import pytest

from posemill.errors import SourceError
from posemill.sources import find_clips

BASE = Path("PHOENIX-2014-T")
FRAMES = BASE / "features" / "fullFrame-210x260px"
MANUAL = BASE / "annotations" / "manual"


@pytest.mark.parametrize("below", [".", "..", BASE, BASE / "features", FRAMES], ids=str)
def test_all_folders_users_point_at_are_understood(phoenix, below):
    clips = find_clips(phoenix / below)
    assert clips.layout == "phoenix"
    found = [(clip.split, clip.clip_id, clip.num_frames, clip.label) for clip in clips]
    assert found == [
        ("train", "a-1", 3, 'REGEN "STARK'),
        ("train", "a-2", 3, "SONNE"),
        ("dev", "b-1", 3, "WIND"),
        ("test", "c-1", 3, "WOLKE"),
    ]
    assert clips[1].extra == {"speaker": "Signer02", "translation": "schön"}
    assert clips[0].extra["translation"] == 'es "regnet'
    assert clips.problems == ()
    assert clips.num_ignored == 1  # the stray profile
    assert clips.fingerprint == find_clips(phoenix).fingerprint


def test_splits_can_be_chosen(phoenix):
    assert [clip.clip_id for clip in find_clips(phoenix, splits=["test", "dev"])] == ["b-1", "c-1"]
    shutil.rmtree(phoenix / FRAMES / "dev")
    with pytest.raises(SourceError, match="has no split 'dev'; it has: train, test"):
        find_clips(phoenix, splits=["train", "dev", "test"])


def test_copies_with_a_folder_1_give_the_same_clips(phoenix):
    before = find_clips(phoenix)
    for clip in before:
        inner = Path(clip.path) / "1"
        pictures = list(Path(clip.path).glob("*.png"))
        inner.mkdir()
        for picture in pictures:
            picture.rename(inner / picture.name)
    after = find_clips(phoenix)
    assert [clip.clip_id for clip in after] == [clip.clip_id for clip in before]
    assert after[0].path.endswith("/train/a-1/1")
    assert after[0].label == before[0].label
    assert after.fingerprint == before.fingerprint


def test_what_lacks_frames_annotation_or_corpus_files_is_told(phoenix):
    shutil.move(phoenix / FRAMES / "train" / "a-2", phoenix / FRAMES / "train" / "new")
    clips = find_clips(phoenix)
    assert clips.problems == (
        "train: 1 clip annotated but without frames: a-2",
        "train: 1 clip with frames but not annotated: new",
    )
    assert [clip.label for clip in clips if clip.clip_id == "new"] == [None]
    shutil.rmtree(phoenix / MANUAL)
    clips = find_clips(phoenix)
    assert len(clips) == 4
    assert clips.problems[0] == "train: no corpus file, so no glosses and no translations"


def test_pictures_in_odd_places_are_left_out_and_what_cannot_be_read_is_a_clip(phoenix):
    odd = phoenix / FRAMES / "train" / "a-1" / "crops"
    odd.mkdir()
    shutil.copyfile(phoenix / FRAMES / "train" / "a-1" / "images0001.png", odd / "x.png")
    (phoenix / FRAMES / "train" / "lost").symlink_to("lost")
    clips = find_clips(phoenix)
    assert [clip.num_frames for clip in clips] == [3, 3, None, 3, 3]
    assert [clip.clip_id for clip in clips if clip.num_frames is None] == ["lost"]
    assert "lost' cannot be read: Too many levels" in clips.problems[0]
    assert clips.problems[1].endswith("train/a-1/crops' is not where a clip should be")


def test_a_broken_corpus_file_is_refused_with_its_line(phoenix):
    corpus = phoenix / MANUAL / "PHOENIX-2014-T.dev.corpus.csv"
    good = corpus.read_text()
    broken = {
        good + "b-2|x\n": r"dev\.corpus\.csv, line 3: expected 7 fields as in the first line",
        good + good.splitlines()[1] + "\n": r"line 3: 'b-1' for the second time",
        good.replace("orth", "glosses"): r"line 1: columns that are missing: orth",
    }
    for text, message in broken.items():
        corpus.write_text(text)
        with pytest.raises(SourceError, match=message):
            find_clips(phoenix)
    corpus.write_bytes(good.encode() + "ü".encode("latin-1"))
    with pytest.raises(SourceError, match="is not UTF-8"):
        find_clips(phoenix)


def test_something_else_said_to_be_phoenix_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"is not PHOENIX-2014-T: expected features/fullFrame-"):
        find_clips(tmp_path, layout="phoenix")


def test_the_real_corpus_files_are_read(shared, tmp_path):
    base = tmp_path / "PHOENIX-2014-T"
    shutil.copytree(shared / "datasets" / "phoenix14t" / "annotations", base / "annotations")
    frames = base / "features" / "fullFrame-210x260px" / "dev"
    name = "11August_2010_Wednesday_tagesschau-2"
    (frames / name).mkdir(parents=True)
    (frames / name / "images0001.png").touch()
    clips = find_clips(base)
    assert clips[0].label == "DRUCK TIEF KOMMEN"
    assert "nächsten" in clips[0].extra["translation"]
    assert clips.problems[0].startswith("dev: 518 clips annotated but without frames")
