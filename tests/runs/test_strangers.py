"""Runs of strangers: whatever their files say, nothing outside of the folder is touched."""

import os

import pytest

from posemill.errors import RunError
from posemill.files import open_plain
from posemill.runs.log import EventLog
from posemill.runs.manifest import check_folder
from posemill.runs.queries import read_ledger
from posemill.runs.reader import open_run
from tests.runs.conftest import SHARD, change_ledger, small_clip, write_run


@pytest.fixture
def run(tmp_path):
    """A run of one clip, and beside it a file that is not its own."""
    folder = write_run(tmp_path / "run", small_clip("a", 4)).folder
    (tmp_path / "mine.parquet").write_bytes((folder / "shards" / SHARD).read_bytes())
    return folder


@pytest.mark.parametrize(
    "name", ["../../mine.parquet", "../mine.parquet", "/etc/passwd", "x\0.parquet", "a.txt", ""]
)
def test_a_shard_outside_of_the_run_is_not_read(run, name):
    change_ledger(run, "UPDATE shards SET name = ?", name)
    with pytest.raises(RunError, match="nothing outside of a run is read or changed"):
        next(open_run(run).clips())


def test_a_shard_that_is_a_link_is_refused(run):
    shard = run / "shards" / SHARD
    shard.unlink()
    shard.symlink_to(run.parent / "mine.parquet")
    with pytest.raises(RunError, match="which is not a file of"):
        next(open_run(run).clips())


@pytest.mark.parametrize("name", ["shards", "ledger.sqlite", "manifest.json", "logs", "lock"])
def test_a_part_that_is_a_link_is_refused_before_anything_is_opened(run, name):
    outside = run.parent / f"outside-{name}"
    if (run / name).exists():
        (run / name).rename(outside)
    (run / name).symlink_to(outside)
    for look in (open_run, check_folder):
        with pytest.raises(RunError, match=f"{name} is a link, expected a f"):
            look(run)


@pytest.mark.parametrize("name", ["ledger.sqlite", "manifest.json", "lock"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_on(run, name):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(RunError, match=f"{name} is something else, expected a file"):
        open_run(run)


def test_an_endless_view_in_a_ledger_is_not_asked(run):
    change_ledger(run, "DROP TABLE splits")
    change_ledger(
        run,
        "CREATE VIEW splits AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT 'all' AS split, i AS num_clips, 0 AS clips_done, 0 AS frames_known, "
        "0 AS frames_out, 0 AS frames_failed FROM n",
    )
    with pytest.raises(RunError, match="is not a ledger of posemill: it holds the view 'splits'"):
        open_run(run)
    with pytest.raises(RunError, match="it holds the view 'splits'"):
        EventLog(run)


def test_shards_without_their_ledger_are_left_alone(run):
    for name in ("b.parquet", "note.txt"):
        (run / "shards" / name).touch()
    with read_ledger(run):
        (run / "ledger.sqlite").unlink()
    refused = pytest.raises(RunError, match=r"has 2 shards and no ledger\.sqlite.*was touched")
    with refused, read_ledger(run):
        pass
    assert len(list((run / "shards").iterdir())) == 3


def test_only_an_ordinary_file_is_opened(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"link|ordinary|symbolic"):
            open_plain(tmp_path / name, os.O_RDONLY | os.O_CREAT)
    assert not (tmp_path / "target").exists()
    os.close(open_plain(tmp_path / "file", os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "file").exists()
