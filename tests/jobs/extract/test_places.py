"""Runs that lie elsewhere: the same rows as here, one writer, continued from any machine."""

import gzip
import json
import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import posemill
from posemill.commands.extract import split_out
from posemill.commands.runs import status, stop
from posemill.config import FramesConfig
from posemill.errors import ConfigError, PlaceError, RunError, StoppedError
from posemill.jobs.extract.coordinator import Coordinator
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status
from posemill.places import lease, open_place
from posemill.runs.events import Finished
from posemill.runs.home import RunHome
from posemill.runs.ledger import Ledger
from posemill.runs.reader import open_run
from posemill.runs.records import RecordLog
from posemill.sources import find_clips
from posemill.training.config.train_config import TrainConfig
from tests.runs.conftest import change_ledger

SIZES = {"train/a": 21, "train/b": 5, "dev/d": 9}


class Killed(BaseException):
    """Stands for a SIGKILL in this process."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A machine is its cache folder: another one knows nothing of what this one has."""
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-1"))
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    monkeypatch.setattr(lease, "PATIENCE_SECONDS", 0.2)


@pytest.fixture
def on_machine(tmp_path, monkeypatch):
    return lambda number: monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / f"machine-{number}"))


@pytest.fixture(params=["shared", "s3"])
def place(request, tmp_path):
    if request.param == "s3":
        return Path(request.getfixturevalue("s3_bucket")) / "runs" / "a"
    return tmp_path / "nfs" / "run"


@pytest.fixture
def tree(make_tree):
    root = make_tree(SIZES)
    (root / "train" / "b" / "0003.png").write_bytes(b"no picture")
    return root


@pytest.fixture
def config(place, tree, config_for):
    """Of a run of the tree elsewhere."""
    return config_for(tree).replace(out=place, storage="shared")


@pytest.fixture
def shared(tree, config_for, tmp_path):
    """Of a run of the tree in a shared folder."""
    return config_for(tree, tmp_path / "nfs" / "run", storage="shared")


def die_after(monkeypatch, num_commits):
    """Let the coordinator be killed at some commit, with what it had not published yet."""
    receive, seen = Coordinator._receive, []

    def killed(self, task, value):
        receive(self, task, value)
        if value is not None and len(seen) == num_commits:
            raise Killed
        seen.append(value)

    # A killed process gives nothing back.
    monkeypatch.setattr(lease.Lease, "release", lambda self: self._ended.set())
    monkeypatch.setattr(Coordinator, "_receive", killed)


def test_a_run_elsewhere_has_the_same_rows_and_is_read_from_any_machine(
    place, config, on_machine, same_runs, tmp_path
):
    extract(config.replace(out=tmp_path / "here", storage="local"))
    summary = extract(config)
    assert summary.exit_code == 1
    assert summary.num_frames == 34
    on_machine(2)
    same_runs(RunHome.existing(place).work, tmp_path / "here")
    found = status(place)
    assert (found.state, found.frames_done, found.holder) == ("finished", 35, None)
    assert open_run(place).table().equals(open_run(tmp_path / "here").table())
    assert [each.reason for each in open_run(place).failures()] == ["not an image"]
    on_machine(3)
    again = extract(config)
    assert again.num_frames_now == 0
    assert again.counts == summary.counts


def test_another_machine_goes_on_where_a_killed_one_was(
    place, config, on_machine, same_runs, tmp_path, monkeypatch
):
    config = config.replace(task_frames=4)
    extract(config.replace(out=tmp_path / "here", storage="local"))
    for number in range(1, 3):
        on_machine(number)
        with monkeypatch.context() as patch:
            patch.setattr("posemill.runs.log.RECORD_SECONDS", 0.0)
            die_after(patch, 1)
            with pytest.raises(Killed):
                extract(config)
        assert status(place).frames_done >= 2 * number
    on_machine(9)
    assert extract(config).num_frames_now < 35
    same_runs(RunHome.existing(place).work, tmp_path / "here")


def test_a_coordinator_that_was_cut_off_cannot_commit_what_its_successor_did(
    place, config, on_machine, same_runs, tmp_path, monkeypatch
):
    config = config.replace(task_frames=4)
    extract(config.replace(out=tmp_path / "here", storage="local"))
    receive, is_first = Coordinator._receive, [True]

    def overtaken(self, task, value):
        if is_first and is_first.pop():  # asleep; a second machine does it all meanwhile
            on_machine(2)
            monkeypatch.setattr(lease.Lease, "renew", lambda self, **_: None)
            extract(config)
        receive(self, task, value)

    monkeypatch.setattr(Coordinator, "_receive", overtaken)
    with pytest.raises(RunError, match=r"was taken over by another process while this one was cut"):
        extract(config)
    on_machine(3)
    same_runs(RunHome.existing(place).work, tmp_path / "here")
    records = [each.key for each in open_place(place).list("records/")]
    assert len(records) == len(set(records))


def test_two_coordinators_at_once_are_told_and_status_tells_who_works(place, config, on_machine):
    extract(config)
    with RunHome.at(place, "shared").owned() as records:
        assert records is not None
        on_machine(2)
        with pytest.raises(RunError, match=rf"is being worked on by pid {os.getpid()} on .*stop"):
            extract(config)
        found = read_status(RunHome.existing(place).work)
        assert found.state == "running"
        assert found.holder.pid == os.getpid()
        with pytest.raises(RunError, match=r"is worked on by pid .*: run posemill stop there"):
            stop(RunHome.existing(place).work)
    assert read_status(RunHome.existing(place).work).state == "finished"
    with RunHome.at(place, "shared").owned() as records:  # it was given back: nobody waits
        assert records.epoch == 3


def test_what_failed_is_tried_again_elsewhere_too(
    place, make_tree, tree, config, on_machine, tmp_path
):
    extract(config)
    make_tree({"b": 5}, "whole")
    (tmp_path / "whole" / "b" / "0003.png").replace(tree / "train" / "b" / "0003.png")
    on_machine(2)
    summary = extract(config.replace(retry_failed=True))
    assert (summary.num_frames, summary.exit_code) == (35, 0)
    on_machine(3)
    assert len(open_run(place).table()) == 35


def test_other_options_sources_and_things_are_refused(place, tree, config, on_machine):
    extract(config)
    on_machine(2)
    name = RunHome.at(place).name
    with pytest.raises(RunError, match="was begun with other options") as caught:
        extract(config.replace(mode="image"))
    assert str(caught.value).startswith(name)
    (tree / "train" / "a" / "0000.png").unlink()
    with pytest.raises(RunError, match="the source is not the one") as caught:
        extract(config)
    assert name in str(caught.value)
    other = Path(str(place) + "-other")
    open_place(other).put("notes.txt", b"mine")
    with pytest.raises(RunError, match=r"is not empty and not a posemill run .*'notes.txt'"):
        extract(config.replace(out=other))
    with pytest.raises(RunError, match=r"none.* is not a posemill run: it has no manifest.json"):
        open_run(f"{open_place(place).uri}-none")


def test_damaged_and_missing_records_are_said_and_a_run_made_anew_is_not_the_one_in_the_cache(
    place, config, on_machine
):
    extract(config)
    storage = open_place(place)
    keys = [each.key for each in storage.list("records/")]
    content = storage.get(keys[1])
    storage.put(keys[1], content[:-9])
    on_machine(2)
    with pytest.raises(RunError, match=r"0000000002.json.gz is damaged, or of another version"):
        open_run(place)
    storage.delete(keys[1])
    with pytest.raises(RunError, match=r"0000000002.json.gz is missing, but there is records/"):
        open_run(place)
    storage.put(keys[1], content)
    assert open_run(place).num_frames == 34
    for entry in list(storage.list()):
        storage.delete(entry.key)
    extract(config.replace(stride=2))
    assert open_run(place).num_frames == 19
    assert len(open_run(place).table()) == 19


def test_a_run_begun_on_a_local_disk_stays_one_and_is_not_begun_anew_by_its_uri(
    tree, config_for, tmp_path
):
    extract(config_for(tree))
    extract(config_for(tree).replace(storage="shared"))
    assert not (tmp_path / "run" / "records").exists()
    assert (tmp_path / "run" / "ledger.sqlite").exists()
    with pytest.raises(RunError, match="is a run of this machine; name it by its path"):
        extract(config_for(tree).replace(out=Path((tmp_path / "run").as_uri())))
    assert open_run(tmp_path / "run").num_frames == 34


def test_what_only_a_disk_can_hold_is_refused(tree, config_for):
    finished = extract(config_for(tree)).folder
    with pytest.raises(ConfigError, match=r"frames are written into a folder of this machine"):
        FramesConfig(tree, Path("s3://bucket/frames"))
    for write in (posemill.prepare, posemill.export, posemill.visualize, posemill.report):
        with pytest.raises(ConfigError, match=r"s3://bucket/x.npz is not on this machine, and on"):
            write(finished, out="s3://bucket/x.npz")
    with pytest.raises(ConfigError, match=r"s3://bucket/x.npz is not on this machine, and only"):
        posemill.compare(finished, finished, "s3://bucket/x.npz")
    with pytest.raises(ConfigError, match=r"out: a training is written to a disk of this machine"):
        TrainConfig(out="s3://bucket/train")
    with pytest.raises(ConfigError, match=r"a file is written to a disk of this machine; .*\.pkl"):
        split_out(config_for(tree).replace(out=Path("s3://bucket/x.pkl")))


def test_machines_at_work_have_to_see_a_shared_folder_and_no_copy_of_a_run(
    tmp_path, s3_bucket, monkeypatch
):
    assert RunHome.at(tmp_path).folder_to_see == tmp_path
    assert RunHome.at(tmp_path / "nfs", "shared").folder_to_see == tmp_path / "nfs"
    assert RunHome.at(f"{s3_bucket}/run").folder_to_see is None
    monkeypatch.setattr("posemill.runs.home.is_shared", lambda _: True)
    homes = [RunHome.at(tmp_path / "new", kind) for kind in ("local", "auto", "shared")]
    assert [home.is_here for home in homes] == [True, False, False]


def test_leases_are_taken_once_lost_to_a_later_epoch_and_then_left_alone(tmp_path, monkeypatch):
    storage = open_place(tmp_path / "run")
    first = lease.Lease(storage, "same")
    second = lease.Lease(storage, "same")  # the owner knows that the first is gone
    assert second.epoch == 2
    first.renew()
    first.release()
    assert [entry.key for entry in storage.list()] == ["lease/00000002.json"]
    state = lease.read_lease(storage)
    assert (state.epoch, state.is_released) == (2, False)
    second.release()
    free = lease.read_lease(storage)
    third = lease.Lease(storage, "two")
    monkeypatch.setattr(lease, "read_lease", lambda _: free)  # another one that saw it free
    with pytest.raises(RunError, match="is being worked on by"):
        lease.Lease(storage, "three")
    monkeypatch.undo()
    third.release()
    open_place(tmp_path / "odd").put("lease/00000001.json", b"[]")
    with pytest.raises(RunError, match=r"is not a lease of posemill: .*, delete it"):
        lease.read_lease(open_place(tmp_path / "odd"))


def test_a_storage_that_fails_stops_a_worker_in_words(tree, config_for, s3_bucket, monkeypatch):
    def fail(self, key, content):
        if key.startswith("shards/"):
            raise PlaceError(f"{self.name_of(key)}: access was refused")
        return put(self, key, content)

    place = type(open_place(s3_bucket))
    put = place.put
    monkeypatch.setattr(place, "put", fail)
    with pytest.raises(PlaceError, match="access was refused"):
        extract(config_for(tree).replace(out=Path(s3_bucket)))


def test_a_writer_that_is_overtaken_while_it_takes_over_reads_what_came(shared):
    """The old one's last record may come between reading and taking over: it counts."""
    extract(shared)
    place, last = shared.out, []
    ledger_path = RunHome.at(place).work / "ledger.sqlite"

    class Late(RecordLog):
        def follow(self, ledger):
            added = super().follow(ledger)
            if not last:
                last.append(1)
                RecordLog(open_place(place), 1).publish([Finished("late")], ledger.number + 1)
            return added

    with closing(Ledger(ledger_path)) as ledger:
        Late(open_place(place), 2).take_over(ledger)
        assert ledger.finished_at() == "late"


def put_all(folder, uri):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            open_place(uri).put(str(path.relative_to(folder)), path.read_bytes())
    return uri


@pytest.mark.parametrize("kind", ["videos", "frames"])
def test_a_source_at_a_uri_gives_the_same_rows_and_reasons(
    kind, make_tree, config_for, write_video, s3_bucket, tmp_path
):
    if kind == "frames":
        root = make_tree(SIZES)
        (root / "train" / "b" / "0003.png").write_bytes(b"no picture")
    else:
        root = tmp_path / "videos"
        for number in range(5):
            write_video(root / f"v{number}.mp4", 9 + number, seed=number)
        (root / "v2.mp4").write_bytes(b"no video")
        whole = (root / "v3.mp4").read_bytes()
        (root / "v3.mp4").write_bytes(whole[: len(whole) * 2 // 3])
    options = {"mode": "video", "task_frames": 20}
    here = extract(config_for(root, "here", **options))
    uri = put_all(root, f"{s3_bucket}/data")
    config = config_for(tmp_path, "there", **options).replace(source=Path(uri))
    there = extract(config)
    assert there.counts == here.counts
    assert there.reasons == here.reasons
    one, other = there.run.to_numpy(), here.run.to_numpy()
    assert one["points"].tobytes() == other["points"].tobytes()
    for failure in there.run.failures():
        assert failure.path.startswith(uri)
        assert "posemill-scratch" not in failure.message
    if kind == "frames":
        assert next(there.run.clips()).image_paths[0] == f"{uri}/train/a/0000.png"
    assert there.run.manifest.source["path"] == uri
    assert extract(config).num_frames_now == 0


def test_what_changed_since_the_listing_is_a_failure_and_credentials_that_expire_stop_the_run(
    config_for, write_video, s3_bucket, tmp_path, monkeypatch
):
    for number in range(3):
        write_video(tmp_path / "videos" / f"v{number}.mp4", 6, seed=number)
    uri = put_all(tmp_path / "videos", f"{s3_bucket}/data")
    clips, config = find_clips(uri), config_for(tmp_path).replace(source=Path(uri))
    open_place(uri).put("v1.mp4", b"another")
    open_place(uri).delete("v2.mp4")
    summary = extract(config, clips=clips)
    assert summary.num_frames == 6
    reasons = {each.clip_id: (each.reason, each.message) for each in summary.run.failures()}
    assert reasons == {
        "v1": ("changed", f"{uri}/v1.mp4 was changed or removed since it was listed"),
        "v2": ("changed", f"{uri}/v2.mp4 was changed or removed since it was listed"),
    }

    def expired(self, key, version):
        raise PlaceError("the credentials have expired")
        yield b""

    monkeypatch.setattr("posemill.places.objects.ObjectPlace.read", expired)
    with pytest.raises(PlaceError, match="the credentials have expired"):
        extract(config.replace(out=tmp_path / "other"), clips=clips)


def test_a_mistyped_folder_at_a_uri_is_a_failure_as_it_is_on_a_disk(
    make_tree, config_for, s3_bucket, tmp_path
):
    uri = put_all(make_tree({"a": 4}), f"{s3_bucket}/data")
    (tmp_path / "list.csv").write_text(f"path\n{uri}/a\n{uri}/mistyped\n")
    summary = extract(config_for(tmp_path / "list.csv"))
    assert summary.exit_code == 1
    assert summary.num_frames == 4
    (failure,) = summary.run.failures()
    assert (failure.path, failure.reason) == (f"{uri}/mistyped", "missing")


def test_the_origin_that_a_stranger_put_beside_a_folder_leads_nowhere(
    make_tree, config_for, tmp_path
):
    tree = make_tree({"a": 4})
    mine = extract(config_for(tree, "mine"))
    before = sorted(path.name for path in (tmp_path / "mine").iterdir())
    (tmp_path / "download").mkdir()
    origin = {"uri": (tmp_path / "mine").as_uri(), "id": "x"}
    for content in (json.dumps(origin), "[]", "{}", "nonsense"):
        (tmp_path / "download" / "origin.json").write_text(content)
        assert extract(config_for(tree, "download/run")).exit_code == 0
        assert (tmp_path / "download" / "run" / "ledger.sqlite").is_file()
        assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == before
        assert open_run(tmp_path / "mine").num_frames == mine.num_frames == 4


def test_a_bad_copy_is_fetched_anew_and_no_shard_that_a_ledger_names_outside_of_the_run(
    tree, config_for, s3_bucket
):
    place = Path(s3_bucket) / "runs" / "a"
    extract(config_for(tree, task_frames=8).replace(out=place))
    folder = RunHome.existing(place).work
    expected = open_run(place).to_numpy()["points"].tobytes()
    for damage in (b"nonsense", b""):
        for path in (*(folder / "shards").iterdir(), folder / "ledger.sqlite"):
            path.write_bytes(damage)
        assert open_run(place).to_numpy()["points"].tobytes() == expected
    run = open_run(folder)
    change_ledger(folder, "UPDATE shards SET name = '../../x.parquet' WHERE shard_no = 2")
    with pytest.raises(RunError, match="which is not a file of"):
        next(run.clips())


def test_a_stranger_s_record_is_not_unpacked_without_end_and_a_copy_knows_its_origin(
    shared, tmp_path, monkeypatch
):
    monkeypatch.setattr("posemill.runs.records._MOST_BYTES", 1 << 20)
    extract(shared)
    last = max((shared.out / "records").iterdir())
    record = json.loads(gzip.decompress(last.read_bytes())) | {"events": "x" * (2 << 20)}
    number = record["number"] + 1
    content = gzip.compress(json.dumps(record | {"number": number}).encode(), 1)
    (last.parent / f"{number:010d}.json.gz").write_bytes(content)
    with pytest.raises(RunError, match="larger than 1 MB"):
        open_run(shared.out)
    (origin,) = (tmp_path / "machine-1" / "runs").glob("*/origin.json")
    for content in ("[]", "{}", "nonsense"):
        origin.write_text(content)
        with pytest.raises(RunError, match=r"origin\.json does not say where the run is"):
            RunHome.existing(shared.out)


def test_a_signal_ends_the_wait_for_another_machine_s_lease(shared, on_machine, monkeypatch):
    with monkeypatch.context() as patch:
        die_after(patch, 1)
        with pytest.raises(Killed):
            extract(shared)
    on_machine(2)
    monkeypatch.setattr(lease, "PATIENCE_SECONDS", 60.0)
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(StoppedError):
        extract(shared)
    assert time.monotonic() - started < 20
