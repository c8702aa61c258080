import json

import pytest

from posemill.errors import ConfigError
from posemill.training.launch.sweep import read_sweep, summarize, tabulate

BASE = 'data = "x"\nmodel = "mlp"\nepochs = 3\nmodel_options = { dropout = 0.1 }\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "base.toml").write_text(BASE)
    return tmp_path


def write(folder, text):
    path = folder / "sweep.toml"
    path.write_text('config = "base.toml"\nout = "runs"\n' + text)
    return path


def finish(job, scores, seconds=1.0):
    job.run_folder.mkdir(parents=True)
    text = json.dumps({"scores": scores, "seconds": seconds})
    (job.run_folder / "summary.json").write_text(text)


def test_random_draws_follow_the_seed_and_stay_within_their_limits(folder):
    text = (
        "[random]\nsamples = {}\nseed = 3\nlr = {{ low = 1e-4, high = 1e-1, log = true }}\n"
        "batch_size = {{ low = 8, high = 64 }}\noptimizer = {{ choices = ['sgd', 'adamw'] }}\n"
    )
    few = [job.changes for job in read_sweep(write(folder, text.format(4))).jobs]
    many = [job.changes for job in read_sweep(write(folder, text.format(30))).jobs]
    assert many[:4] == few, "more samples add to the first ones"
    assert all(1e-4 <= changes["lr"] <= 1e-1 for changes in many)
    assert sum(changes["lr"] < 3e-3 for changes in many) > 8, "evenly on the logarithm"
    assert {type(changes["batch_size"]) for changes in many} == {int}
    assert {changes["optimizer"] for changes in many} == {"sgd", "adamw"}


def test_folds_run_every_combination_on_each_fold(folder):
    sweep = read_sweep(write(folder, "[grid]\nlr = [0.1, 0.2]\n[folds]\ncount = 3\n"))
    assert [(job.changes["lr"], job.changes["fold"]) for job in sweep.jobs] == [
        (lr, fold) for lr in (0.1, 0.2) for fold in range(3)
    ]


def test_other_names_are_options_of_the_model_and_join_the_shared_ones(folder):
    sweep = read_sweep(write(folder, "[settings]\nlr = 0.5\n[grid]\nhidden = [[8], [16, 16]]\n"))
    config = sweep.resolve(sweep.jobs[1], cores=1).config
    assert config.model_options == {"dropout": 0.1, "hidden": [16, 16]}
    assert (config.lr, config.epochs) == (0.5, 3)
    assert config.out == str(sweep.jobs[1].run_folder)


def test_the_table_says_where_each_job_stands(folder):
    sweep = read_sweep(
        write(folder, "[grid]\nlr = [1.0, 2.0, 3.0, 4.0]\n"), out=str(folder / "out")
    )
    finish(sweep.jobs[0], {"dev": {"accuracy": 0.5}})
    sweep.jobs[2].run_folder.mkdir(parents=True)
    rows = tabulate(sweep, {sweep.jobs[1].name: "exit code 2: no data"})
    assert [row["state"] for row in rows] == ["done", "failed", "started", "waiting"]
    assert rows[0]["dev_accuracy"] == 0.5
    assert rows[1]["reason"] == "exit code 2: no data"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grids]\nlr = [1]\n", "unknown table 'grids'; expected config, out"),
        ("[grid]\nlr = 0.1\n", r"grid.lr: expected a list of values, got 0.1"),
        ("[grid]\nlr = ['high']\n", "lr: expected float, got 'high'"),
        ("[random]\nlr = { low = 1, high = 2 }\n", r"random.samples: expected 1 or more, got 0"),
        ("[random]\nsamples = 2\nlr = 4\n", r"random.lr: expected { low, high, log }"),
        ("[random]\nsamples = 1\nlr = {low = 0, high = 1, log = true}\n", "expected { low, high"),
        ("[folds]\ncount = 1\n", "folds: expected count = 2 or more"),
        ("[settings]\nepoch = 3\n", "unknown setting 'epoch'; did you mean 'epochs'"),
        ("[grid]\nlrr = [0.1]\n", "'lrr' is no setting, .* model mlp.*did you mean 'lr'"),
        ("[random]\nsamples = 1\nhiden = {choices = [[8]]}\n", "did you mean 'hidden'"),
        ("[grid]\nmodel = ['mpl']\n", "unknown model 'mpl'.*did you mean 'mlp'"),
        ("this is not toml", "is not TOML"),
    ],
)
def test_wrong_sweeps_are_refused_before_anything_runs(folder, text, message):
    with pytest.raises(ConfigError, match=message):
        read_sweep(write(folder, text))


def test_missing_files_and_folders_are_said(folder):
    with pytest.raises(ConfigError, match="no sweep file"):
        read_sweep(folder / "nowhere.toml")
    (folder / "sweep.toml").write_text("[grid]\nlr = [1.0]\n")
    with pytest.raises(ConfigError, match="expected out = 'folder' in the file, or out"):
        read_sweep(folder / "sweep.toml")


def test_settings_are_no_scores_whatever_they_and_the_splits_are_called(folder):
    path = write(folder, "[grid]\ndev_fraction = [0.1, 0.2]\n[folds]\ncount = 2\n")
    sweep = read_sweep(path, out=str(folder / "out"))
    for job, rate in zip(sweep.jobs[:3], (0.5, 1.0, 0.25), strict=True):
        finish(job, {"val": {"wer": rate}})
    assert summarize(sweep) == [
        {"dev_fraction": 0.1, "trainings": 2, "val_wer_mean": 0.75, "val_wer_spread": 0.25},
        {"dev_fraction": 0.2, "trainings": 1, "val_wer_mean": 0.25, "val_wer_spread": 0.0},
    ]


def test_a_training_is_known_by_all_settings_that_decide_what_is_learned(folder):
    path = write(folder, "[grid]\nlr = [0.1, 0.2]\n")
    before = [job.name for job in read_sweep(path).jobs]
    assert [name.rpartition("-")[0] for name in before] == ["lr=0.1", "lr=0.2"]
    (folder / "base.toml").write_text(BASE + "workers = 2\nlog_every = 5\n")
    assert [job.name for job in read_sweep(path).jobs] == before, "the same trainings, only faster"
    (folder / "base.toml").write_text(BASE.replace("epochs = 3", "epochs = 4"))
    after = [job.name for job in read_sweep(path).jobs]
    assert not set(before) & set(after), "what three epochs gave is not the result of four"


def test_more_samples_keep_the_names_of_those_that_were_drawn_before(folder):
    text = "[grid]\nlr = [0.1, 0.2]\n[random]\nsamples = {}\nframes = {{ choices = [8, 16] }}\n"
    few = [job.name for job in read_sweep(write(folder, text.format(2))).jobs]
    many = [job.name for job in read_sweep(write(folder, text.format(9))).jobs]
    assert set(few) <= set(many)
    assert sorted(many) == sorted(set(many)), "equal draws are one training"


@pytest.mark.parametrize(
    ("base", "cores", "mode", "threads"),
    [("", 1, "single", 1), ("", 4, "multi_thread", 4), ("threads = 2\n", 4, "multi_thread", 2),
     ('parallel = "multi_process"\n', 4, "multi_process", 0)],
)  # fmt: skip
def test_a_job_stays_within_its_share_of_the_cores(folder, base, cores, mode, threads):
    (folder / "base.toml").write_text(BASE + base)
    sweep = read_sweep(write(folder, ""))
    config = sweep.resolve(sweep.jobs[0], cores=cores).config
    assert (config.mode, config.threads) == (mode, threads)
    assert config.num_workers < cores
