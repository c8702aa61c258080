"""What posemill did not write for the same source stays, unless --overwrite is given."""

import os

import pytest

from posemill.errors import ConfigError
from posemill.outputs import Outputs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))


def write(path, outputs, text="ours"):
    with outputs.writing_file(path):
        path.write_text(text)


def refuses(path, outputs):
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="overwrite=True") as caught:
        outputs.claim_file(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    return True


def test_only_what_was_written_for_the_same_source_and_not_changed_is_replaced(
    tmp_path, monkeypatch
):
    path = tmp_path / "x.pkl"
    for text in ("ours", "again"):
        write(path, Outputs(tmp_path / "run"), text)
        assert path.read_text() == text
    assert refuses(path, Outputs(tmp_path / "other"))
    for text in ("", "seventy hours"):
        path.write_text(text)
        assert refuses(path, Outputs(tmp_path / "run"))
    write(path, Outputs(tmp_path / "run", overwrite=True))
    assert path.read_text() == "ours"
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "another"))  # without the record
    assert refuses(path, Outputs(tmp_path / "run"))
    monkeypatch.setenv("POSEMILL_CACHE", str(path))  # no folder: only the record is missing
    write(path, Outputs(tmp_path / "run", overwrite=True))
    assert refuses(path, Outputs(tmp_path / "run"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are of Unix")
def test_a_pipe_and_a_link_stay_and_so_does_what_it_leads_to(tmp_path):
    (tmp_path / "lab.pkl").write_text("seventy hours")
    (tmp_path / "x.pkl").symlink_to("lab.pkl")
    assert refuses(tmp_path / "x.pkl", Outputs(tmp_path / "run"))
    (tmp_path / "gone.pkl").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="overwrite=True"):
        Outputs(tmp_path / "run").claim_file(tmp_path / "gone.pkl")
    os.mkfifo(tmp_path / "x.npz")
    with pytest.raises(ConfigError, match="not a file"):
        Outputs(tmp_path / "run", overwrite=True).claim_file(tmp_path / "x.npz")


def test_the_record_of_a_folder_keeps_what_is_there_and_drops_the_rest(tmp_path):
    outputs = Outputs("run")
    for name in "abc":
        write(tmp_path / name, outputs)
    (tmp_path / "b").unlink()
    write(tmp_path / "c", Outputs("run"))
    (record,) = (tmp_path / "cache" / "outputs").iterdir()
    assert [line[:5] for line in record.read_text().splitlines()] == ['["a",', '["c",']


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "export"
    (folder / "train").mkdir(parents=True)
    (folder / "mark").write_text("")
    (folder / "train" / "a.txt").write_text("1 2")
    return folder


def claim(outputs, folder):
    outputs.claim_folder(folder, marker="mark", own=lambda path: path.rglob("[am]*"))


def test_a_whole_folder_is_ours_as_long_as_nothing_in_it_changed(folder):
    Outputs("run").record(folder)
    claim(Outputs("run"), folder)
    with pytest.raises(ConfigError, match="overwrite=True"):
        claim(Outputs("other"), folder)
    (folder / "train" / "a.txt").write_text("1 2 3")
    with pytest.raises(ConfigError, match=f"{folder}.*overwrite=True"):
        claim(Outputs("run"), folder)
    claim(Outputs("run", overwrite=True), folder)


def test_a_folder_without_our_marker_is_not_replaced_even_if_asked(folder, tmp_path):
    (folder / "mark").unlink()
    with pytest.raises(ConfigError, match="not written by posemill"):
        claim(Outputs("run", overwrite=True), folder)
    for path in (tmp_path / "link", tmp_path / "file"):
        path.symlink_to(folder) if path.name == "link" else path.write_text("")
        with pytest.raises(ConfigError, match="expected a folder"):
            claim(Outputs("run", overwrite=True), path)
    (tmp_path / "empty").mkdir()
    claim(Outputs("run"), tmp_path / "empty")
