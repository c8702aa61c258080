import json

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format
from posemill.formats.shared.contract import Recipe
from posemill.formats.txt import TxtFormat
from posemill.testing.formats import make_clip

TXT = TxtFormat()
LINES = [f"{10 * i}.5 {5 * i}" for i in range(1, 19)]


def folder_with(tmp_path, **files):
    folder = tmp_path / "out" / "dev" / "clip"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return tmp_path / "out"


def test_every_picture_has_18_lines_of_pixels_in_mirrored_folders(tmp_path):
    clip = make_clip(1, skeleton="openpose-18", clip_id="a/b")
    clip.points[0, 3] = np.nan
    clip.scores[0, 3] = 0
    TXT.write([clip], tmp_path / "out", recipe=Recipe())
    lines = (tmp_path / "out/train/a/b/images0001.txt").read_text().splitlines()
    assert len(lines) == 18
    assert lines[3] == "-1 -1"
    header = json.loads((tmp_path / "out" / "posemill.jsonl").read_text().splitlines()[0])
    assert header["missing"] == "-1 -1"
    x, y = map(float, lines[0].split())
    np.testing.assert_allclose((x, y), clip.points[0, 0, :2] * (640, 480), atol=1e-3)


def test_a_folder_of_another_maker_needs_a_size(tmp_path):
    text = "\n".join(["0 0", *LINES[1:]])
    path = folder_with(tmp_path, a10=text, a9="\n".join(LINES), a11=text)
    assert detect_format(path).name == "txt"
    (clip,) = TXT.read(path, size_wh=(256, 128))
    assert (clip.split, clip.clip_id, len(clip)) == ("dev", "clip", 3)
    assert clip.mask[:, 0].tolist() == [True, False, False]  # 9 comes before 10
    np.testing.assert_allclose(clip.points[0, 0], (10.5 / 256, 5 / 128, 0))
    with pytest.raises(FormatError, match="sizes are not known; give one by size"):
        list(TXT.read(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n", "expected 18 lines 'x y', got 1 lines"),
        ("1 2 3\n" * 18, "expected 18 lines 'x y', got 18 lines"),
        ("1 x\n" * 18, "could not convert string to float"),
        ("1 inf\n" * 18, r"a\.txt: a found point is infinite"),
        ("1 2\n" * 2000, "expected 18 lines 'x y', got 8000 bytes"),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        list(TXT.read(folder_with(tmp_path, a=text), size_wh=(10, 10)))


def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path):
    TXT.write([make_clip(1, skeleton="openpose-18")], tmp_path / "out", recipe=Recipe())
    index = tmp_path / "out" / "posemill.jsonl"
    index.write_text(index.read_text().replace('"train/clip_1"', '"../../etc"'))
    with pytest.raises(FormatError, match="leads out of the folder"):
        list(TXT.read(tmp_path / "out"))
    index.write_bytes(b"{")
    for use in (TXT.read, detect_format):
        with pytest.raises(FormatError, match=r"posemill\.jsonl: not a readable JSON file"):
            list(use(tmp_path / "out"))


def test_a_lost_file_is_an_error(tmp_path):
    TXT.write([make_clip(1, skeleton="openpose-18")], tmp_path / "out", recipe=Recipe())
    (tmp_path / "out/train/clip_1/images0002.txt").unlink()
    with pytest.raises(FormatError, match=r"images0002\.txt"):
        list(TXT.read(tmp_path / "out"))


def test_folders_may_be_called_otherwise(tmp_path):
    fields = {"skeleton": "openpose-18", "frames": 2}
    clips = [
        make_clip(1, **fields, clip_id="frames", image_paths=("s/train/frames/x.jpg", "y.jpg")),
        *(make_clip(seed, skeleton="openpose-18", frames=1, split="dev", clip_id=f"frames/{name}",
                    image_paths=(f"s/dev/frames/{name}.jpg",))
          for seed, name in enumerate("xy")),
    ]  # fmt: skip
    recipe = Recipe(replace={"frames": "annotation"})
    TXT.write(clips, tmp_path / "out", recipe=recipe)
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in tmp_path.rglob("*.txt"))
    assert found == [
        f"{split}/annotation/{name}.txt" for split in ("dev", "train") for name in "xy"
    ]
    back = {(clip.split, clip.clip_id): clip for clip in TXT.read(tmp_path / "out")}
    assert set(back) == {("train", "frames"), ("dev", "frames/x"), ("dev", "frames/y")}
    for clip in clips:
        found_points = back[clip.split, clip.clip_id].points[..., :2]
        np.testing.assert_allclose(found_points, clip.points[..., :2], atol=1e-5)
    with pytest.raises(
        FormatError, match="no folder is called 'frame'; there are dev, frames, tra"
    ):
        TXT.write(clips, tmp_path / "other", recipe=Recipe(replace={"frame": "annotation"}))
    with pytest.raises(FormatError, match=r"'train/../x' leads out of the folder"):
        TXT.write(clips, tmp_path / "other", recipe=Recipe(replace={"frames": "../x"}))
    assert not (tmp_path / "other").exists()
    with pytest.raises(FormatError, match="two clips go to dev/annotation/x: dev/frames/x came ag"):
        TXT.write([*clips, clips[1]], tmp_path / "other", recipe=recipe)


@pytest.mark.parametrize("root", ["", "/data"])
def test_pictures_that_are_clips_of_their_own_have_their_files_side_by_side(tmp_path, root):
    """As a list of pictures gives them; of two that would be one file the second has a folder."""
    names = ("a/x.jpg", "a/y.jpg", "a/x.png", "z.jpg")
    clips = [
        make_clip(seed, frames=1, skeleton="openpose-18", clip_id=name, split="all",
                  image_paths=(f"pictures/{name}",))
        for seed, name in enumerate(names)
    ]  # fmt: skip
    TXT.write(clips, tmp_path / "out", recipe=Recipe(root=root))
    files = sorted((tmp_path / "out").rglob("*.txt"))
    found = [file.relative_to(tmp_path / "out").as_posix() for file in files]
    assert found == ["a/x.png/x.txt", "a/x.txt", "a/y.txt", "z.txt"]
    for clip, back in zip(clips, TXT.read(tmp_path / "out"), strict=True):
        assert (back.clip_id, back.image_paths) == (clip.clip_id, clip.image_paths)
        np.testing.assert_allclose(back.points[..., :2], clip.points[..., :2], atol=1e-5)
    TXT.write(clips[:2], tmp_path / "other", recipe=Recipe(replace={"a": "b"}))
    assert (tmp_path / "other/b/x.txt").read_bytes() == files[1].read_bytes()


def test_a_folder_with_a_readme_is_no_text_of_frames(tmp_path):
    (tmp_path / "README.txt").write_text("What lies here.\n")
    with pytest.raises(FormatError, match="none of the formats known"):
        detect_format(tmp_path)
    folder_with(tmp_path, a="\n".join(LINES))
    assert detect_format(tmp_path).name == "txt"


def test_a_picture_whose_name_has_a_backslash_stays_in_the_folder(tmp_path):
    names = ("..\\..\\evil.png", "b.png")
    clip = make_clip(1, skeleton="openpose-18", frames=2, image_paths=names)
    TXT.write([clip], tmp_path / "out", recipe=Recipe())
    written = [path.name for path in (tmp_path / "out").rglob("*.txt")]
    assert sorted(written) == ["..%5C..%5Cevil.txt", "b.txt"]
    (back,) = TXT.read(tmp_path / "out")
    assert back.image_paths == names
