import json

import numpy as np
import pytest
from made_up_people import make_person

import posemill
from posemill.errors import ConfigError, RunError, TrainingError
from posemill.skeletons import get_skeleton
from posemill.testing.synthetic import CorpusOptions, write_corpus
from posemill.training.front import train


def test_evaluation_and_predictions_of_the_best_checkpoint_are_those_of_the_training(
    trained, clips_folder
):
    for split in ("dev", "test"):
        scores = posemill.evaluate(trained.out, split=split)
        assert scores["accuracy"] == pytest.approx(trained.scores[split]["accuracy"])
        assert (scores["split"], scores["num_clips"]) == (split, 8)
    assert posemill.evaluate(trained.out, split="validation")["split"] == "dev"
    with pytest.raises(TrainingError, match="no clips of split 'nowhere'"):
        posemill.evaluate(trained.out, split="nowhere")
    found = list(posemill.predict(trained.out, clips_folder / "test_keypoints.npz"))
    right = sum(p.label == f"class{i % 3}" for i, p in enumerate(found))
    assert right / len(found) == pytest.approx(trained.scores["test"]["accuracy"])
    first = found[0].to_dict()
    assert first["clip_id"] == "test0"
    assert first["top"][0][0] == first["label"]
    assert sum(chance for _, chance in first["top"]) == pytest.approx(1, abs=1e-3)


def test_an_evaluation_computes_as_the_training_did_where_the_device_can(settings, monkeypatch):
    for module in ("precision", "runs.inference"):
        monkeypatch.setattr(f"posemill.training.{module}.cpu_has_fast_bf16", lambda: True)
    result = train(settings(precision="bf16"))
    scores = posemill.evaluate(result.out)
    assert scores["precision"] == "bf16"
    assert scores["loss"] == pytest.approx(result.scores["test"]["loss"], rel=1e-6)
    monkeypatch.setattr("posemill.training.runs.inference.cpu_has_fast_bf16", lambda: False)
    assert posemill.evaluate(result.out)["precision"] == "fp32", "emulated it would take long"
    facts = json.loads((result.out / "run.json").read_text()) | {"precision": "fp16"}
    (result.out / "run.json").write_text(json.dumps(facts))
    assert posemill.evaluate(result.out)["precision"] == "fp32", "fp16 is for GPUs"


def test_missing_points_of_files_are_read_as_the_training_reads_them(
    settings, clips_folder, tmp_path
):
    trained = train(settings(epochs=1, normalize="whole"))
    with np.load(clips_folder / "test_keypoints.npz") as file:
        points, ids = file["keypoints"], file["video_ids"]
    expected = points.copy()
    points[::2, 1] = np.nan
    expected[::2, 1] = 0
    mask = (~np.isnan(points).any(-1)).astype(np.uint8)
    np.savez(tmp_path / "gaps.npz", keypoints=points, video_ids=ids)
    np.savez(tmp_path / "masked.npz", keypoints=points, video_ids=ids, mask=mask)
    np.savez(tmp_path / "zeros.npz", keypoints=expected, video_ids=ids)
    gaps, masked, zeros = (
        [found.to_dict() for found in posemill.predict(trained.out, tmp_path / f"{name}.npz")]
        for name in ("gaps", "masked", "zeros")
    )
    assert gaps == masked == zeros
    assert all(np.isfinite(row["probability"]) for row in gaps)


def test_other_data_is_scored_whole_by_a_model_of_one_fold(settings, clips_folder, tmp_path):
    trained = train(settings(epochs=1, folds=3, fold=1))
    for name in ("test_keypoints.npz", "labels.csv"):
        (tmp_path / name).write_bytes((clips_folder / name).read_bytes())
    found = posemill.evaluate(trained.out, split="test", data=str(tmp_path))
    assert found["num_clips"] == 8
    (trained.out / "summary.json").unlink()
    assert posemill.evaluate(trained.out, split="test", data=str(tmp_path)) == found
    assert len(list(posemill.predict(trained.out, tmp_path))) == 8, "as evaluate, before its end"
    own = settings(folds=3, data=str(tmp_path), labels=str(tmp_path / "labels.csv")) | {
        "out": str(tmp_path / "own")
    }
    posemill.evaluate(train(own).out)
    text = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(text.replace("test0,class0", "test0,class1"))
    for again in (lambda: posemill.evaluate(own["out"]), lambda: train(own | {"resume": True})):
        with pytest.raises(RunError, match="other clips are set aside as test now; it trained on"):
            again()


def test_clips_that_the_model_cannot_take_are_refused(trained, tmp_path):
    clip = make_person(2, skeleton_name="openpose-18")
    with pytest.raises(ConfigError, match="was trained on a skeleton posemill does not know"):
        list(posemill.predict(trained.out, [clip]))
    np.savez(tmp_path / "x.npz", keypoints=np.ones((3, 4, 2), np.float32), video_ids=["a"] * 3)
    with pytest.raises(TrainingError, match=r"frames of \(4, 2\), the model .* expects \(6, 2\)"):
        list(posemill.predict(trained.out, tmp_path / "x.npz"))


def test_clips_of_another_layout_are_mapped_to_the_runs(settings, tmp_path):
    rng = np.random.default_rng(0)
    count = get_skeleton("holistic-143").num_points
    points = rng.random((24, count, 3)).astype(np.float32)
    ids = np.repeat([f"c{i}" for i in range(8)], 3)
    for split in ("train", "dev"):
        np.savez(tmp_path / f"{split}_keypoints.npz", keypoints=points, video_ids=ids)
    rows = [f"c{i},{'ab'[i % 2]}" for i in range(8)]
    (tmp_path / "labels.csv").write_text("\n".join(["video_id,label", *rows]))
    fields = settings(data=str(tmp_path), labels=str(tmp_path / "labels.csv"), epochs=1,
                      normalize="auto", model="mlp", model_options={"hidden": [8]})  # fmt: skip
    result = train(fields)
    (prediction,) = posemill.predict(result.out, [make_person(5, clip_id="new")])
    assert prediction.clip_id == "new"
    assert prediction.label in ("a", "b")
    with pytest.raises(TrainingError, match="clip 'none' has no frames"):
        list(posemill.predict(result.out, [make_person(0, clip_id="none")]))


@pytest.fixture
def corpus(tmp_path):
    """A corpus whose clips of dev (some) and test (all) are too short for their glosses."""
    counts = {"train": 8, "dev": 4, "test": 4}
    write_corpus(tmp_path / "corpus", CorpusOptions(num_glosses=4, num_clips=counts))
    for split, first in (("dev", 4), ("test", 1)):
        (file,) = (tmp_path / "corpus").rglob(f"*.{split}.corpus.csv")
        header, *rows = file.read_text().splitlines()
        column = header.split("|").index("orth")
        for number in range(first - 1, len(rows)):
            fields = rows[number].split("|")
            fields[column] = " ".join([fields[column]] * 200)
            rows[number] = "|".join(fields)
        file.write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / "corpus"


def test_glosses_are_trained_scored_and_read_and_clips_too_short_for_them_are_counted(
    settings, corpus, capsys
):
    fields = settings(data=str(corpus / "keypoints"), labels=str(corpus), task="ctc", epochs=1,
                      model="tcn_bilstm", model_options={"width": 16, "num_lstm": 1},
                      normalize="auto", decoder="beam", short_clips="drop", figures=True,
                      progress=True)  # fmt: skip
    result = train(fields)
    rest = "clips are too short for their glosses, which no alignment can spell: the loss is that"
    notes = [note for note in result.summary["notes"] if rest in note]
    assert [note.partition(" clips")[0] for note in notes] == ["dev: 1 of 4", "test: 4 of 4"]
    assert f"note: test: 4 of 4 {rest}" in " ".join(capsys.readouterr().err.split())
    scores, head = result.scores["test"], result.summary["head"]
    assert head in ("sequence", "conv")
    assert scores["wer"] == scores[f"wer_{head}"] > 0.9
    assert "loss" in result.scores["dev"]
    assert "loss" not in scores, "0.0000 was said of clips that have none"
    with pytest.warns(UserWarning, match=f"test: 4 of 4 {rest}") as seen:
        again = posemill.evaluate(result.out, split="test")
    assert seen[0].filename == __file__  # where the user called
    assert again["wer"] == pytest.approx(scores["wer"])
    assert (again["head"], again["num_too_short"]) == (head, 4)
    assert "loss" not in again
    found = posemill.predict(result.out, corpus / "keypoints" / "test_keypoints.npz")
    assert [prediction.probability for prediction in found] == [None] * 4
    names = {path.stem for path in (result.out / "figures").glob("*.png")}
    assert names == {"curves", "samples"}
