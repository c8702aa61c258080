"""`VideoClips`: items, draws, clips that cannot be read, loaders of every kind, and `fit`."""

import logging
import multiprocessing
import time

import numpy as np
import pytest
import torch
from numbered_clips import ROWS, frames_of, write_rows
from small_sets import QUIET
from torch import nn
from torch.utils.data import DataLoader

import posemill
from posemill.errors import DecodeError, SourceError, TrainingError
from posemill.testing.decoders import number_of
from posemill.training.video.index import Index
from posemill.training.video.problems import describe_problems, live_problems

NO_SIDES = posemill.ClipAugment(mirror_labels={})


def clips_of(index, **options):
    return posemill.VideoClips(index, **{"size": 16, "sampling": "segments:4", **options})


def drawn(item):
    """The numbers of an item's frames, by their red."""
    return (item["frames"][:, 8, 8, 0] // 8).tolist()


def broken(packed, *numbers):
    """Let some clips of a pack lie beyond its end."""
    lines = (packed / "index.csv").read_text().splitlines()
    for number in numbers:
        fields = lines[number + 1].split(",")
        fields[5] = "999999999"
        lines[number + 1] = ",".join(fields)
    (packed / "index.csv").write_text("\n".join(lines))
    return packed


def test_an_item_says_what_it_is_and_has_its_frames(packed):
    clips = clips_of(packed, split="dev", size=None)
    assert (len(clips), clips.classes) == (3, ["left_swipe", "right_swipe", "stop"])
    assert clips.labels == ["left_swipe", "right_swipe", "stop"]
    item = clips[1]
    assert (item["target"], item["length"], item["index"]) == (1, 4, 1)
    np.testing.assert_array_equal(item["frames"], frames_of(7)[[1, 4, 7, 10]])
    assert item["frames"].dtype == torch.uint8
    assert item["view"].tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0]
    assert repr(clips) == "VideoClips(3 clips, 3 classes, sampling 'segments:4', size None)"
    assert clips[-1]["index"] == 2


@pytest.mark.parametrize("source", ["packed", "pictures"])
def test_training_draws_frames_by_seed_epoch_and_clip(source, request):
    index = request.getfixturevalue(source)
    clips, same = clips_of(index, split="train"), clips_of(index, split="train")
    assert clips.is_training
    assert clips.is_random
    first = [drawn(clips.at_epoch(2, epoch)) for epoch in range(8)]
    assert first == [drawn(same.at_epoch(2, epoch)) for epoch in range(8)]
    assert len({tuple(each) for each in first}) > 3
    other = clips_of(index, split="train", seed=1)
    assert first != [drawn(other.at_epoch(2, epoch)) for epoch in range(8)]
    assert not clips_of(index, split="train", is_training=False).is_random
    assert not clips_of(index, split="train", sampling="all").is_random


def test_without_an_epoch_draws_follow_torch(packed):
    clips = clips_of(packed, split="train")
    torch.manual_seed(3)
    first = [drawn(clips[0]) for _ in range(6)]
    assert len({tuple(each) for each in first}) > 1
    torch.manual_seed(3)
    assert [drawn(clips[0]) for _ in range(6)] == first
    clips.set_epoch(4)
    assert drawn(clips[0]) == drawn(clips[0]) == drawn(clips.at_epoch(0, 4))


@pytest.mark.usefixtures("warm_children")
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods()[:2])
def test_loader_processes_give_what_one_process_gives(method, videos):
    clips = clips_of(videos, split="train", size=(64, 48), augment=NO_SIDES)
    clips.set_epoch(1)
    here = [clips[index] for index in range(len(clips))]
    loader = DataLoader(
        clips, batch_size=4, num_workers=1, persistent_workers=True,
        multiprocessing_context=method, collate_fn=clips.collate_fn,
    )  # fmt: skip
    batches = list(loader)
    assert [tuple(batch["frames"].shape) for batch in batches] == [
        (4, 4, 48, 64, 3), (2, 4, 48, 64, 3),
    ]  # fmt: skip
    for name in ("frames", "target", "view", "index"):
        there = torch.cat([batch[name] for batch in batches])
        assert torch.equal(there, torch.stack([torch.as_tensor(item[name]) for item in here]))
    clips.set_epoch(2)  # reaches the process that goes on
    again = torch.cat([batch["view"] for batch in loader])
    assert torch.equal(again, torch.stack([clips[index]["view"] for index in range(len(clips))]))
    assert not torch.equal(again, torch.stack([item["view"] for item in here]))
    del loader


@pytest.mark.parametrize("rule", ["replace", "drop", "raise"])
def test_a_clip_that_cannot_be_read(rule, packed, caplog):
    # clips 0 and 3 are the left swipes of `train`
    clips = clips_of(broken(packed, 0), split="train", on_error=rule, is_training=False)
    if rule == "raise":
        with pytest.raises(DecodeError, match=r"truncated: clip 'clip0' should end at byte"):
            clips[0]
        return
    with caplog.at_level(logging.WARNING):
        item = clips[0]
    if rule == "replace":
        assert (item["index"], item["target"]) == (3, 0)
    else:
        assert item is None
    said = {"replace": "replaced by another of its label", "drop": "left out"}[rule]
    assert f"clip 'clip0' is {said}" in caplog.text
    clips[0]
    (problem,) = clips.problems()
    assert (problem.clip_id, problem.times) == ("clip0", 2)
    assert "truncated" in problem.message


def test_where_no_clip_of_the_label_can_be_read_another_stands_in_and_no_batch_is_empty(packed):
    clips = clips_of(broken(packed, 0, 3), split="train", is_training=False)
    assert (clips[0]["index"], clips[0]["target"]) == (1, 1)
    clips = clips_of(broken(packed, 1), split="train", on_error="drop", is_training=False)
    loader = DataLoader(clips, batch_size=2, collate_fn=clips.collate_fn)
    assert [batch["index"].tolist() for batch in loader] == [[2], [2], [4, 5]]


def test_problems_of_loader_processes_are_counted_and_told(packed):
    before = live_problems()
    clips = clips_of(broken(packed, 1, 4), is_training=False)
    loader = DataLoader(clips, batch_size=3, num_workers=2)
    for _ in range(2):
        assert sum(len(batch["index"]) for batch in loader) == 9
    assert {problem.clip_id: problem.times for problem in clips.problems()} == {
        "clip1": 2, "clip4": 2,
    }  # fmt: skip
    (line,) = describe_problems(before)
    assert line.startswith(
        "2 clips could not be read, 4 times in all, each was replaced by another of its label: "
    )
    assert "should end at byte" in line


def test_files_that_are_missing_are_left_out_and_said(videos, tmp_path, caplog):
    rows = [(videos.parent / f"{name}.mp4", *rest) for name, *rest in ROWS[:3]]
    index = write_rows(tmp_path / "list.csv", "path,split,label", [*rows, ("x.mp4", "train", "no")])
    with caplog.at_level(logging.WARNING):
        clips = clips_of(index)
    assert len(clips) == 3
    assert clips.problems()[0].clip_id == "x"
    assert "x.mp4': missing: no such file; clip 'x' is left out" in caplog.text
    assert clips.classes == ["left_swipe", "right_swipe", "stop"]
    with pytest.raises(SourceError, match=r"x.mp4 is not there: clip 'x' of"):
        clips_of(index, on_error="raise")


def test_labels_and_classes_have_to_go_together(packed, tmp_path):
    names = ["stop", "left_swipe", "right_swipe"]
    assert clips_of(packed, classes=names).targets[:3] == [1, 2, 0]
    with pytest.raises(TrainingError, match="expected all labels, 'stop' is not among them"):
        clips_of(packed, classes=names[1:])
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).write_bytes(b"x")
    some = write_rows(tmp_path / "some.csv", "path,label", [("a.mp4", "x"), ("b.mp4", "")])
    with pytest.raises(TrainingError, match="1 of 2 clips have no label, the first is 'b'"):
        clips_of(some)
    bare = write_rows(tmp_path / "bare.csv", "path,label", [("a.mp4", "")])
    assert (clips_of(bare).classes, clips_of(bare).targets) == ([], [-1])


def test_an_unknown_split_or_decoder_names_those_there_are(packed):
    with pytest.raises(SourceError, match="no clips of split 'test'; there are dev, train"):
        clips_of(packed, split="test")
    with pytest.raises(posemill.PosemillError, match="unknown decoder 'ffmpeg'"):
        clips_of(packed, decoder="ffmpeg")
    with pytest.raises(IndexError, match="clip 9 of 9"):
        clips_of(packed)[9]
    assert len(clips_of(packed, split="val")) == 3, "another name of dev"


def test_clips_of_different_lengths_are_padded_with_black(videos):
    clips = clips_of(videos, sampling="stride:5", size=None)
    items = [clips[0], clips[1]]
    items[1] = {**items[1], "frames": items[1]["frames"][:2], "length": 2}
    batch = clips.collate_fn(items)
    assert batch["length"].tolist() == [3, 2]
    assert [number_of(frame) for frame in batch["frames"][0].numpy()] == [0, 5, 10]
    assert not batch["frames"][1, 2].any()
    assert batch["frames"][1, 1].any()


@pytest.mark.parametrize("settings", [{"pack": True}, {"format": "png"}])
def test_what_posemill_frames_wrote_gives_the_frames_of_the_videos(settings, videos, tmp_path):
    out = tmp_path / "frames"
    posemill.frames(videos, out, executor="serial", progress=False, **settings)
    kept, direct = clips_of(out, size=None), clips_of(videos, size=None)
    assert (kept.classes, kept.targets) == (direct.classes, direct.targets)
    for index in range(len(direct)):
        one, other = kept[index], direct[index]
        assert torch.equal(one["frames"], other["frames"])


def test_mirrored_clips_have_the_label_of_the_other_side(packed):
    augment = posemill.ClipAugment(mirror=1.0, mirror_labels={"left_swipe": "right_swipe"})
    clips = clips_of(packed, split="train", augment=augment)
    assert [clips.at_epoch(index, 0)["target"] for index in range(3)] == [1, 0, 2]
    quiet = clips_of(packed, split="dev", augment=augment)
    assert [quiet[index]["target"] for index in range(3)] == [0, 1, 2]
    with pytest.raises(TrainingError, match=r"mirrored, 'left_swipe' looks like 'right_swipe'"):
        clips_of(packed, split="train", augment=posemill.ClipAugment())


class Net(nn.Module):
    """The colour of a clip to its class."""

    def __init__(self):
        super().__init__()
        self.prepare = posemill.ClipTransform(8)
        self.head = nn.Linear(3, 3)

    def forward(self, frames, view):
        return self.head(self.prepare(frames, view).mean((1, 3, 4)))


@pytest.mark.parametrize("rule", ["replace", "drop"])
def test_fit_trains_on_clips_some_of_which_cannot_be_read(rule, packed, tmp_path):
    broken(packed, 1, 7)
    train = clips_of(packed, split="train", on_error=rule, augment=NO_SIDES)
    dev = clips_of(packed, split="dev", on_error=rule)
    result = posemill.fit(
        Net(), train, dev, loss=nn.functional.cross_entropy, out=str(tmp_path / "run"),
        metric=lambda output, target: (output.argmax(1) == target).float(), epochs=2, batch_size=4,
        **QUIET,
    )  # fmt: skip
    assert 0 <= result.scores["dev"]["metric"] <= 1
    lines = [line for line in result.summary["notes"] if "could not be read" in line]
    said = {"replace": "replaced by another of its label", "drop": "left out"}[rule]
    assert len(lines) == 2
    assert all(f" times in all, each was {said}: " in line for line in lines)
    assert all(line.startswith("1 clip could not be read, ") for line in lines)


def test_a_cache_keeps_what_is_not_drawn(videos, tmp_path):
    clips = clips_of(videos, split="dev", sampling="uniform:4")
    cached = posemill.cache_dataset(clips, key="clips", folder=tmp_path)
    first, again = cached[0], cached[0]
    assert cached.count_kept() == 1
    assert torch.equal(first["frames"], again["frames"])
    assert cached.lengths == [4] * 3
    assert cached.collate_fn([first, again])["frames"].shape == (2, 4, 16, 16, 3)
    for options in ({"split": "train"}, {"on_error": "drop"}):
        with pytest.raises(ValueError, match="draws its samples at random, or leaves some out"):
            posemill.cache_dataset(clips_of(videos, **options), key="clips", folder=tmp_path)


def test_one_unreadable_clip_among_many_costs_little():
    places = [posemill.Clip(f"{n}", f"{n}.mp4", "video", label="ab"[n % 2]) for n in range(20_000)]
    clips = posemill.VideoClips(Index(places, []), is_training=False)
    clips._make_item = lambda index, epoch, **_: {"index": index}
    started = time.process_time()
    assert clips.replacement(4)["index"] == 6
    assert time.process_time() - started < 0.5
