import errno
import json
import subprocess
import sys

import pytest

from posemill.errors import RunError, TrainingError
from posemill.training.record.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.path.mkdir()
    return made


def test_lines_cut_by_a_kill_are_left_out_and_a_full_disk_is_named(folder):
    lines = [json.dumps({"step": step, "loss": 1.0}) for step in (1, 2, 3)]
    folder.metrics_path.write_text("\n".join(lines) + '\n{"step": 4, "lo')
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3]
    folder.cut_metrics(2)
    assert [row["step"] for row in folder.read_metrics()] == [1, 2]
    with pytest.raises(TrainingError, match="No space left"), folder.naming_the_disk():
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError), folder.naming_the_disk():
        raise FileNotFoundError(errno.ENOENT, "gone")


def test_files_that_are_missing_or_broken_are_named(folder):
    with pytest.raises(RunError, match=r"is not the folder of a training \(no run.json\)"):
        folder.read_facts()
    assert folder.read_summary() == {}, "before it has finished"
    (folder.path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json cannot be read"):
        folder.read_facts()
    (folder.path / "run.json").write_text("[]")
    with pytest.raises(RunError, match=r"run\.json: expected an object"):
        folder.read_facts()


FACTS = {
    "identity": {"kind": "keypoints", "name": "mlp"},
    "class_names": ["不"],
    "mode": "single",
    "processes": 1,
    "threads": 1,
    "precision": "fp32",
}


def test_the_files_of_a_training_are_plain_json(folder):
    folder.write_facts(FACTS)
    assert folder.read_facts() == {"kind": "posemill-training", **FACTS}
    text = (folder.path / "run.json").read_text(encoding="utf-8")
    assert text.startswith('{\n "kind"')
    assert text.endswith("}\n")
    assert '"不"' in text
    folder.write_summary({"steps": 3})
    assert folder.read_summary() == {"steps": 3}
    assert json.loads((folder.path / "summary.json").read_text()) == {"steps": 3}


@pytest.mark.parametrize("name", FACTS)
def test_facts_that_others_rely_on_must_be_there(folder, name):
    folder.write_facts(FACTS | {name: None})
    with pytest.raises(RunError, match=f"is not what posemill wrote: '{name}' is missing"):
        folder.read_facts()


def test_a_folder_is_free_begun_a_training_or_something_else(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.expect_free(resume=False)
    assert not folder.path.exists(), "nothing is written"
    with folder.made_and_locked():
        folder.config_path.touch()
        folder.expect_free(resume=False)  # a start that failed leaves these two
    folder.write_facts(FACTS)
    with pytest.raises(RunError, match="already holds a training; add resume=True"):
        folder.expect_free(resume=False)
    folder.expect_free(resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is a file; out names a folder"):
        RunFolder(tmp_path / "file").expect_free(resume=False)
    with pytest.raises(RunError, match="holds files that are not a training"):
        RunFolder(tmp_path).expect_free(resume=False)


@pytest.mark.parametrize(
    "line", ['["step"]', '{"loss": 1}', '{"step": "1"}', "\xff\x00", "5", "[" * 100_000]
)
def test_lines_of_another_log_are_refused(folder, line):
    folder.metrics_path.write_text(line + "\n", encoding="latin-1")
    with pytest.raises(RunError, match=r"metrics\.jsonl holds lines that are not"):
        folder.read_metrics()


def test_the_lock_is_kept_when_the_same_process_asks_for_it_again(folder):
    with folder.made_and_locked():
        with pytest.raises(RunError, match="is being trained by another"), folder.made_and_locked():
            pass
        ask = "import sys; from pathlib import Path; from posemill.training.record.live import "
        ask += "is_held; sys.exit(not is_held(Path(sys.argv[1])))"
        assert subprocess.run([sys.executable, "-c", ask, folder.path], check=False).returncode == 0
