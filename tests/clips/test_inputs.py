"""Runs and files behind one face, and the errors of what is neither."""

from collections import Counter

import pytest
from made_up_people import make_person as make_clip
from made_up_people import write_run

from posemill.clips.inputs import ClipInput
from posemill.errors import FormatError, PosemillError, RunError
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure
from posemill.runs.writer import RunWriter
from tests.runs.conftest import change_ledger


@pytest.fixture
def clips():
    return [
        make_clip(10, clip_id="a", split="train"),
        make_clip(20, clip_id="b", split="train", missing=("left_hand",), size_wh=(64, 48)),
        make_clip(5, clip_id="a", split="dev", missing=("pose", "face", "left_hand", "right_hand")),
    ]


@pytest.fixture(params=["run", "npz"])
def material(request, clips, tmp_path):
    """The same clips, as a run and as a file."""
    if request.param == "run":
        return ClipInput(write_run(tmp_path / "run", *clips))
    path = tmp_path / "clips.npz"
    get_format("npz").write(clips, path, recipe=Recipe(layout="543"))
    return ClipInput(path)


def test_clips_outlines_and_picks_agree(material, clips):
    names = [(clip.split, clip.clip_id) for clip in clips]
    assert [(clip.split, clip.clip_id) for clip in material.clips()] == names
    outlines = list(material.outlines())
    assert [(each.split, each.clip_id) for each in outlines] == names
    for outline, clip in zip(outlines, clips, strict=True):
        assert outline.num_frames == len(clip)
        assert outline.num_present == tuple(clip.present.sum(0))
        assert outline.sizes_wh == Counter(map(tuple, clip.sizes_wh.tolist()))
    assert [len(clip) for clip in material.pick([("train", "b")])] == [20]
    train = ClipInput(material.path, splits=["train"])
    assert [clip.clip_id for clip in train.clips()] == ["a", "b"]
    assert [outline.clip_id for outline in train.outlines()] == ["a", "b"]


def test_a_split_is_found_by_its_other_names_and_an_unknown_one_is_named(material):
    for name in ("dev", "val", "Validation"):
        assert [clip.split for clip in ClipInput(material.path, splits=[name]).clips()] == ["dev"]
    with pytest.raises(PosemillError, match=r"has no split 'test'; it has train, dev"):
        list(ClipInput(material.path, splits=["test"]).clips())
    with pytest.raises(PosemillError, match=r"has no split 'test'; it has train, dev"):
        list(ClipInput(material.path, splits=["train", "test"]).outlines())


def test_what_is_no_run_and_no_file_is_said(tmp_path):
    with pytest.raises(PosemillError, match="nowhere: no such file or folder; expected a run or"):
        ClipInput(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="the folder is empty; expected a run or files of a"):
        ClipInput(tmp_path)
    for name in ("a", "b", "c", "{d}"):
        (tmp_path / name).mkdir()
    message = r"no run \(it holds 'a', 'b', 'c' …\), and none of the formats .*posemill extract, or"
    with pytest.raises(FormatError, match=message):
        ClipInput(tmp_path)
    with pytest.raises(FormatError, match=r"\{d\}: the folder is empty"):
        ClipInput(tmp_path / "{d}")


def test_a_run_without_keypoints_is_said(tmp_path):
    RunWriter(tmp_path / "run", Manifest("holistic-543")).finish()
    with pytest.raises(RunError, match=r"holds no keypoints; .* posemill status"):
        ClipInput(tmp_path / "run")
    change_ledger(tmp_path / "run", "DELETE FROM meta WHERE key = 'finished_at'")
    with pytest.raises(RunError, match=r"holds no keypoints yet; .* posemill status"):
        ClipInput(tmp_path / "run")


def test_a_given_size_is_for_frames_that_do_not_say_theirs(tmp_path):
    known = make_clip(3, clip_id="known", split="train", size_wh=(64, 48))
    bare = make_clip(2, clip_id="bare", split="train", size_wh=(0, 0))
    half = make_clip(2, clip_id="half", split="train", size_wh=(0, 48))
    write_run(tmp_path / "run", known, bare, half)
    form = get_format("npz")
    form.write([known, bare, half], tmp_path / "a.npz", recipe=Recipe(layout="543"))
    for path in (tmp_path / "run", tmp_path / "a.npz"):
        source = ClipInput(path, size_wh=(200, 100))
        sizes = {"known": [[64, 48]] * 3, "bare": [[200, 100]] * 2, "half": [[200, 100]] * 2}
        counted = {name: Counter(map(tuple, each)) for name, each in sizes.items()}
        assert {each.clip_id: each.sizes_wh for each in source.outlines()} == counted
        assert {each.clip_id: each.sizes_wh.tolist() for each in source.clips()} == sizes
        picked = source.pick([("train", name) for name in sizes])
        assert {each.clip_id: each.sizes_wh.tolist() for each in picked} == sizes
        assert next(ClipInput(path).outlines()).sizes_wh == {(64, 48): 3}
    source = ClipInput(tmp_path / "run", size_wh=(200, 100))
    (plan,) = source.plan_splits()["train"]
    block = source.read_block(plan)
    assert {each.clip_id: each.sizes_wh.tolist() for each in block.clips} == sizes


def test_a_file_says_its_format_and_nothing_of_failures(clips, tmp_path):
    get_format("npz").write(clips, tmp_path / "a.npz", recipe=Recipe(layout="543"))
    source = ClipInput(tmp_path / "a.npz")
    num_bytes = (tmp_path / "a.npz").stat().st_size
    assert source.facts() == {"format": "npz", "losses": [], "bytes": num_bytes}
    assert source.origin() == {"path": str(tmp_path / "a.npz"), "kind": "npz"}
    assert (source.num_failed(), source.num_failed("clips"), source.failures()) == ({}, {}, [])
    assert (source.num_frames, source.splits, source.run) == (None, None, None)


def test_failures_are_those_of_the_chosen_splits(clips, tmp_path):
    lost = [
        Failure("lost", split, None, 7, "lost.mp4", "gone", "it is gone")
        for split in ("train", "dev")
    ]
    write_run(tmp_path / "run", *clips, failures=lost)
    both, dev = ClipInput(tmp_path / "run"), ClipInput(tmp_path / "run", splits=["dev"])
    assert [each.split for each in both.failures()] == ["train", "dev"]
    assert [each.split for each in dev.failures()] == ["dev"]
    assert (both.num_failed("clips"), dev.num_failed("clips")) == (
        {"train": 1, "dev": 1},
        {"dev": 1},
    )
    assert (list(both.num_failed()), list(dev.num_failed())) == (["train", "dev"], ["dev"])
    assert (both.num_frames, dev.num_frames) == (35, 5)
    assert dev.origin()["num_failures"] == 1
    assert both.facts()["is_finished"]


def test_a_split_that_has_no_clips_yet_can_be_looked_at_and_not_converted(tmp_path):
    found, empty = make_clip(3, clip_id="a", split="train"), make_clip(0, clip_id="b", split="dev")
    source = ClipInput(write_run(tmp_path / "run", found, empty))
    assert [clip.clip_id for clip in source.clips_so_far()] == ["a"]
    with pytest.raises(RunError, match=r"split 'dev' holds no clips; .* \(splits=.train.\)"):
        list(source.clips())


@pytest.mark.parametrize("found", ["[", "[[1], []]", "[[1,1,1,1], [[1]]]", "7", "[" * 100_000])
def test_nonsense_in_the_records_is_one_sentence(clips, tmp_path, found):
    write_run(tmp_path / "run", clips[0])
    change_ledger(tmp_path / "run", "UPDATE pieces SET found = ?", found)
    with pytest.raises(RunError, match="the ledger does not say what was found in clip"):
        list(ClipInput(tmp_path / "run").outlines())
