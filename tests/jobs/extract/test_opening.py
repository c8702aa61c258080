"""Beginning a run and going on with it: what is recorded, compared, counted and cleared away."""

import dataclasses
import json
import signal
from contextlib import closing
from pathlib import Path

import pytest

from posemill.errors import ConfigError, RunError, StoppedError
from posemill.estimators import identity
from posemill.jobs.extract import job as job_module
from posemill.jobs.extract import opening
from posemill.jobs.extract import run as run_module
from posemill.jobs.extract.opening import open_events
from posemill.jobs.extract.run import Extraction, extract, settled
from posemill.runs.events import Started
from posemill.runs.manifest import Manifest
from posemill.sources import ClipList, find_clips


def begin(config, clips=None, *, on_count=lambda done, total: None):
    """Open the ledger as `extract` does; returns (ledger, clips)."""
    config.out.mkdir(exist_ok=True)
    job = Extraction(config)
    found = job.find_clips(clips)
    return open_events(job, found, job.manifest(found), on_count=on_count), found


def with_tracking(config, clips):
    """The clips with what is decided about folders of pictures."""
    return Extraction(config).find_clips(clips)


@pytest.fixture
def config(make_tree, config_for):
    return config_for(make_tree({"train/a": 4, "dev/b": 3}))


def edit(folder, change):
    """Change the manifest of a run as a text file."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_new_run_has_a_manifest_a_plan_and_a_folder_for_shards(config):
    events, clips = begin(config)
    assert events.ledger.planned_run() == Manifest.read(config.out).run_id
    events.record(Started())
    events.close()
    left = config.out / "shards" / "part-000-0000001-0000.parquet"
    left.write_bytes(b"cut off")  # without a record: removed when the run goes on
    begin(config)[0].close()
    assert not left.exists()
    manifest = Manifest.read(config.out)
    assert (manifest.kind, manifest.skeleton_name) == ("extract", "holistic-543")
    assert manifest.engine == {"engine": "fake", "version": "1", "device": "cpu"}
    assert manifest.options == {
        "mode": "auto", "decoder": "pyav", "split_long_seconds": None, "splits": None,
        "engine": "fake", "engine_options": {}, "resize": None, "fps": None, "stride": None,
    }  # fmt: skip
    assert manifest.source == {
        "path": str(config.source), "layout": "frames", "fingerprint": clips.fingerprint,
        "num_clips": 2, "num_frames": 7, "tracking": clips.tracking.to_record(),
    }  # fmt: skip
    assert clips.tracking.num_tracked == 2


def test_frames_of_videos_that_do_not_say_are_not_among_the_known(
    config_for, tmp_path, write_video
):
    write_video(tmp_path / "v" / "a.mp4", 3)
    config = config_for(tmp_path / "v")
    assert find_clips(config.source)[0].num_frames is None
    seen = []
    ledger, _ = begin(config, on_count=lambda *counts: seen.append(counts))
    ledger.close()
    assert Manifest.read(config.out).source["num_frames"] == 0
    assert "tracking" not in Manifest.read(config.out).source
    assert seen == [(1, 1)]
    # The plan is there: nothing is counted again.
    begin(config, on_count=lambda *_: pytest.fail("was counted before"))[0].close()


def test_a_signal_while_counting_leaves_no_plan(config_for, tmp_path, write_video):
    for name in ("a", "b"):
        write_video(tmp_path / "v" / f"{name}.mp4", 3)
    config, seen = config_for(tmp_path / "v"), []

    def stop(*counts):
        seen.append(counts)
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError, match=f"stopped by signal {signal.SIGTERM:d}; .*{config.out}"):
        run_module.run_job(Extraction(config), on_count=stop)
    assert seen == [(1, 2)]
    with closing(opening.EventLog(config.out)) as events:
        assert events.ledger.planned_run() is None


def test_a_ledger_that_is_refused_is_closed(config, monkeypatch):
    begin(config)[0].close()
    closed = []
    close = opening.EventLog.close
    monkeypatch.setattr(opening.EventLog, "close", lambda self: closed.append(1) or close(self))
    clips = find_clips(config.source)
    changed = dataclasses.replace(clips, clips=clips[1:], fingerprint="other")
    with pytest.raises(RunError):
        begin(config, changed)
    assert closed == [1]


def test_folders_are_looked_at_unless_the_user_said_what_they_are_or_it_is_clear(
    config, tmp_path, write_video
):
    for changes in ({}, {"layout": "frames"}, {"mode": "video"}, {"mode": "image"}):
        chosen = config.replace(**changes)
        clips = find_clips(chosen.source, layout=chosen.layout)
        assert (with_tracking(chosen, clips).tracking is None) is bool(changes)
    path = tmp_path / "list.csv"
    path.write_text(f"path\n{config.source}/train/a\n")
    for layout in ("auto", "list"):
        listed = config.replace(source=path, layout=layout)
        assert with_tracking(listed, find_clips(path, layout="list")).tracking is not None
    clips = find_clips(config.source)
    assert with_tracking(config, dataclasses.replace(clips, layout="phoenix")).tracking is None
    video = tmp_path / "v" / "a.mp4"
    write_video(video, 2)
    assert with_tracking(config, find_clips(video)).tracking is None
    both = ClipList((*find_clips(video), *clips), "list", "x", "y")
    assert with_tracking(config, both).tracking.num_tracked == 3


def test_the_skeleton_and_the_mode_are_those_the_engine_has(config):
    assert settled(config).skeleton == "holistic-543"
    assert settled(config.replace(skeleton="143")).skeleton == "holistic-143"
    refined = config.replace(engine="holistic", engine_options={"refine_face_landmarks": True})
    assert settled(refined).skeleton == "holistic-553"
    assert settled(refined.replace(skeleton="143")).skeleton == "holistic-143"
    assert [settled(config.replace(mode=mode)).mode for mode in ("auto", "image", "video")] == [
        "auto", "image", "video",
    ]  # fmt: skip


@pytest.mark.parametrize(("only", "other"), [("image", "video"), ("video", "image")])
def test_what_the_engine_does_not_give_is_refused(config, monkeypatch, only, other):
    info = dataclasses.replace(
        run_module.engine_info("fake"), modes=(only,), skeletons=("coco-133",)
    )
    monkeypatch.setattr(run_module, "engine_info", lambda *_: info)
    assert (settled(config).mode, settled(config).skeleton) == (only, "coco-133")
    with pytest.raises(ConfigError, match=only):
        settled(config.replace(mode=other))
    with pytest.raises(ConfigError, match="engine 'fake' gives coco-133, not 'openpose-18'"):
        settled(config.replace(skeleton="openpose-18"))


def test_a_machine_without_a_gpu_may_drive_those_of_a_ray_cluster(config, monkeypatch):
    opened = []

    def open_engine(name, *, device, threads, **options):
        opened.append((device, options))
        return opening_engine("fake")

    opening_engine = identity.open_estimator
    info = dataclasses.replace(
        identity.engine_info("holistic"), devices=("cpu", "cuda"), modes=("image", "video")
    )
    monkeypatch.setattr(identity, "open_estimator", open_engine)
    monkeypatch.setattr(identity, "engine_info", lambda *_: info)
    monkeypatch.setattr(run_module, "list_gpus", list)
    job = Extraction(config.replace(executor="ray", workers=None, num_gpus=2))
    assert job.manifest(find_clips(config.source)).engine["device"] == "cuda"
    assert opened == [("cpu", {"runtime": "onnxruntime"})]
    monkeypatch.setattr(run_module, "list_gpus", lambda: ["one"])
    assert job.manifest(find_clips(config.source)).engine["device"] == "cuda"
    assert opened[1:] == [("cuda:0", {})]


@pytest.mark.parametrize("decoder", ["pyav", "opencv"])
def test_only_videos_of_unknown_length_are_counted_by_the_decoder_that_will_read(
    config, tmp_path, write_video, monkeypatch, decoder
):
    for name, length in {"a": 2, "b": 3, "c": 4}.items():
        write_video(tmp_path / "v" / f"{name}.mp4", length)
    found = find_clips(tmp_path / "v")
    known = dataclasses.replace(found[1], num_frames=9)
    clips = dataclasses.replace(found, clips=(found[0], known, found[2]))
    seen, job, asked = [], Extraction(config.replace(decoder=decoder)), []
    count = job_module.count_frames
    monkeypatch.setattr(
        job_module, "count_frames", lambda *arguments: asked.append(arguments) or count(*arguments)
    )
    counted = job.count_frames(clips, lambda *counts: seen.append(counts))
    assert [clip.num_frames for clip in counted] == [2, 9, 4]
    assert seen == [(1, 2), (2, 2)]
    assert [arguments[1] for arguments in asked] == [decoder] * 2


def test_other_options_are_named_and_what_may_differ_is_not(config):
    begin(config)[0].close()

    def make_different(content):
        content["options"].update(engine="as before", engine_options={"x": 1})
        content["source"].update(path="elsewhere", num_clips=99, num_frames=98)

    edit(config.out, make_different)
    begin(config)[0].close()
    with pytest.raises(RunError) as caught:
        begin(config.replace(mode="image", skeleton="143"))
    assert str(caught.value) == (
        f"{config.out} was begun with other options, so it cannot go on with these:\n"
        "  skeleton_name: the run has 'holistic-543', now it is 'holistic-143'\n"
        "  mode: the run has 'auto', now it is 'image'\n"
        "use the same options, or another folder"
    )


@pytest.mark.parametrize(
    ("runtime", "hint"), [("opencv 4.13", " (with engine_options={'runtime': 'opencv'})"), ("", "")]
)
def test_a_run_begun_on_another_runtime_or_engine_is_refused_with_the_option_that_continues_it(
    config, runtime, hint
):
    begin(config)[0].close()
    engine = {"engine": "fake", "version": "0", "device": "cuda", "runtime": runtime}
    edit(config.out, lambda content: content.update(engine=engine))
    with pytest.raises(RunError) as caught:
        begin(config)
    assert "device: the run has 'cuda', now it is 'cpu'" in str(caught.value)
    assert str(caught.value).endswith(f"\nuse the same options{hint}, or another folder")
    edit(config.out, lambda content: content["engine"].update(engine="openpose"))
    with pytest.raises(RunError) as caught:
        begin(config)
    assert "\n" not in str(caught.value)
    assert "was begun with 'openpose', not with 'fake': go on" in str(caught.value)


@pytest.mark.parametrize("num_new", [5, 6])
def test_a_changed_source_shows_five_changes_of_so_many(config, make_tree, num_new):
    begin(config)[0].close()
    make_tree({f"train/n{index}": 1 for index in range(num_new)})
    with pytest.raises(RunError) as caught:
        begin(config)
    first, *lines, _ = str(caught.value).splitlines()
    assert first.endswith(f"{num_new} clips are not the same:")
    assert lines == [f"  train/n{index} is new" for index in range(5)]


@pytest.mark.parametrize("mode", ["image", "video"])
def test_a_bad_picture_that_was_removed_is_taken_by_retry_failed(make_tree, config_for, mode):
    tree = make_tree({"train/a": 9})
    config = config_for(tree, mode=mode, task_frames=4)
    (tree / "train" / "a" / "0002.png").write_bytes(b"no picture")
    assert extract(config).num_frames == 8
    (tree / "train" / "a" / "0002.png").unlink()
    with pytest.raises(RunError, match="train/a is not the same") as caught:
        extract(config)
    assert "retry_failed=True" in str(caught.value)
    summary = extract(config.replace(retry_failed=True))
    assert (summary.num_frames, summary.frames_failed) == (8, 0)
    clip = summary.run["train", "a"]
    names = [path.name for path in sorted((tree / "train" / "a").iterdir())]
    assert [Path(path).name for path in clip.image_paths] == names
    assert clip.frame_indices.tolist() == [*range(8)]
