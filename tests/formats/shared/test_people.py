import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
from made_up_people import make_crowd, write_run

import posemill
from posemill.clips.inputs import ClipInput
from posemill.errors import ConfigError, FormatError
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe, make_clip
from posemill.formats.shared.people import clip_of_rows
from posemill.records import OtherPeople, PersonIds


def people_clip(counts, clip_id="a"):
    """Return a clip in which people stand in a row, the first of each frame the largest."""
    shape = np.random.default_rng(len(counts)).random((18, 2))

    def person(number):
        flat = shape * (0.3 - 0.05 * number) + [0.05 + 0.3 * number, 0.1]
        return np.concatenate([flat, np.zeros((18, 1))], axis=1).astype(np.float32)

    paths = tuple(f"{clip_id}/{row}.jpg" for row in range(len(counts)))
    frames = [[person(number) for number in range(count)] for count in counts]
    return make_crowd(frames, clip_id=clip_id, image_paths=paths)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", people_clip([3, 0, 1, 2]), people_clip([1, 1], "b"))


@pytest.mark.parametrize(
    ("to", "name"),
    [("openpose", "out"), ("openpose-file", "out.json"), ("coco", "out.json"), ("pose", "out"),
     ("pyskl", "out.pkl"), ("csv", "out.csv"), ("parquet", "out.parquet")],
)  # fmt: skip
def test_who_is_who_goes_into_files_and_comes_back(tmp_path, to, name):
    # The second person is away for a frame, and comes back as the one who stands for it.
    clip = people_clip([2, 2, 1, 2, 2])
    assert clip.others is not None
    ids = PersonIds(np.array([7, 7, 7, 4, 7]), np.array([4, 4, 7, 4]))
    clip = dataclasses.replace(clip, others=dataclasses.replace(clip.others, ids=ids))
    write_run(tmp_path / "run", clip)
    stored = posemill.open_run(tmp_path / "run")["a"].person_ids
    assert stored is not None
    assert [list(row) for row in stored] == [list(row) for row in ids]
    posemill.export(tmp_path / "run", to, tmp_path / name, person="all", progress=False)
    (back,) = ClipInput(tmp_path / name, person="all").clips()
    assert back.others.ids is not None
    # Who stands for a frame may be another one in pyskl, and ids are the places there.
    frames = np.concatenate([np.arange(5), np.repeat(np.arange(5), back.others.counts)])
    numbers = np.concatenate(back.others.ids)
    x = np.concatenate([back.points, back.others.points])[:, 0, 0]
    seen = [sorted(zip(x[frames == t].round(3), numbers[frames == t], strict=True))
            for t in range(5)]  # fmt: skip
    left, right = seen[0]
    assert left[1] != right[1]
    assert seen == [[left, right], [left, right], [left], seen[3], [left, right]]
    if to != "pyskl":
        assert {left[1], right[1]} == {4, 7}
        assert [number for _, number in seen[3]] == [4, 7]


def test_parquet_keeps_everybody_if_only_a_later_clip_has_several(tmp_path):
    write_run(tmp_path / "run", people_clip([1, 1]), people_clip([2, 3, 1], "b"))
    posemill.export(tmp_path / "run", "csv", tmp_path / "a.csv", person="all", progress=False)
    assert next(ClipInput(tmp_path / "a.csv", person="all").clips()).others is None
    out = tmp_path / "a.parquet"
    posemill.export(tmp_path / "a.csv", "parquet", out, person="all", progress=False)
    one, several = ClipInput(out, person="all").clips()
    assert (len(one), one.others) == (2, None)
    assert len(several) == 3
    assert several.others.counts.tolist() == [1, 2, 0]
    first = dataclasses.replace(people_clip([1, 1]), others=None)  # without people: a row a frame
    get_format("parquet").write([first, people_clip([2, 3], "b")], out, recipe=Recipe())
    assert [len(clip) for clip in ClipInput(out).clips()] == [2, 2]


def test_rows_of_one_person_are_taken_without_a_copy_more():
    points = np.zeros((4000, 18, 3), np.float32)
    scores, mask = np.ones((4000, 18), np.float32), np.ones((4000, 18), bool)
    sizes_wh = np.tile(np.array([200, 100], np.int32), (4000, 1))
    fields = {"sizes_wh": sizes_wh, "skeleton_name": "openpose-18"}

    def peak(make):
        tracemalloc.start()
        make()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    frames = np.arange(4000)
    least = peak(lambda: make_clip(points, scores, mask, **fields))
    most = peak(lambda: clip_of_rows(frames, points, scores, mask, ids=None, **fields))
    assert most < least + points.nbytes / 2


def test_people_of_pose_files_of_other_makers_are_kept_the_surest_first(tmp_path):
    from posemill.formats.pose_file import decode_clip, encode_clip

    clip = people_clip([3, 2])
    scores = np.full((3, 18), 0.5, np.float32)
    scores[[0, 2]] = 0.95  # who is second in both frames
    others = OtherPeople(clip.others.counts, clip.others.points, scores)
    path = tmp_path / "theirs.pose"
    path.write_bytes(encode_clip(dataclasses.replace(clip, others=others)))
    found = decode_clip(path, {})
    np.testing.assert_allclose(found.points, clip.others.points[[0, 2]], atol=1e-6)
    np.testing.assert_allclose(
        found.others.points, [clip.points[0], clip.others.points[1], clip.points[1]], atol=1e-6
    )
    assert found.others.counts.tolist() == [2, 1]


def test_everyone_goes_into_plain_coco_that_pycocotools_scores(run, tmp_path):
    out = tmp_path / "people.json"
    posemill.export(run, "coco", out, person="all", progress=False)
    content = json.loads(out.read_text())
    assert [image["file_name"] for image in content["images"]][:2] == ["a/0.jpg", "a/1.jpg"]
    by_image = [annotation["image_id"] for annotation in content["annotations"]]
    assert by_image == [1, 1, 1, 3, 4, 4, 5, 6]
    assert {len(annotation["keypoints"]) for annotation in content["annotations"]} == {51}
    assert len(content["categories"][0]["keypoints"]) == 17
    assert all(0 < annotation["score"] <= 1 for annotation in content["annotations"])
    back = next(iter(ClipInput(out, person="all").clips()))
    assert back.skeleton_name == "coco-17"
    assert back.others.counts.tolist() == [2, 0, 0, 1]
    expected = people_clip([3, 0, 1, 2]).as_skeleton("coco-17")
    np.testing.assert_allclose(back.points, expected.points, atol=1e-4)
    coco = pytest.importorskip("pycocotools.coco")
    evaluate = pytest.importorskip("pycocotools.cocoeval")
    truth = coco.COCO(str(out))
    scored = evaluate.COCOeval(truth, truth.loadRes(content["annotations"]), "keypoints")
    scored.evaluate()
    scored.accumulate()
    scored.summarize()
    assert scored.stats[0] == pytest.approx(1.0)


def test_by_default_formats_get_the_main_person_only_or_the_one_that_is_asked_for(run, tmp_path):
    posemill.export(run, "openpose", tmp_path / "out", progress=False)
    frames = [
        json.loads((tmp_path / "out/a" / f"{row}_keypoints.json").read_text()) for row in range(4)
    ]
    assert [len(frame["people"]) for frame in frames] == [1, 0, 1, 1]
    posemill.prepare(run, tmp_path / "data", person=2, progress=False)
    with np.load(tmp_path / "data" / "all_keypoints.npz") as made:
        found = made["mask"].any(axis=1) if "mask" in made else made["keypoints"].any(axis=(1, 2))
    assert found.tolist() == [True, False, False, True, False, False]


def test_prepare_writes_several_people_each_followed(run, tmp_path):
    (prepared,) = posemill.prepare(run, tmp_path / "out", people=2, progress=False)
    with np.load(prepared.path) as arrays:
        keypoints, mask = arrays["keypoints"], arrays["mask"]
        assert arrays["scores"].shape == (6, 2, 18)
    assert keypoints.shape == (6, 2, 18, 3)
    assert mask[:, :, 0].tolist() == [[1, 1], [0, 0], [1, 0], [1, 1], [1, 0], [1, 0]]
    clip = people_clip([3, 0, 1, 2])
    np.testing.assert_allclose(keypoints[0, 0], clip.points[0], atol=1e-6)
    np.testing.assert_allclose(keypoints[3, 1], clip.others.points[-1], atol=1e-6)
    with pytest.raises(FormatError, match="expected keypoints"):
        next(iter(ClipInput(prepared.path).clips()))


@pytest.mark.parametrize("to", ["npz", "txt"])
def test_formats_of_one_person_refuse_all(run, tmp_path, to):
    with pytest.raises(
        ConfigError,
        match=rf"{to} holds one person in a frame: choose person=.main. or a number, or one of "
        "pyskl, openpose, openpose-file, coco",
    ):
        posemill.export(run, to, tmp_path / "out", person="all", progress=False)
    with pytest.raises(ConfigError, match="npz holds one person in a frame"):
        posemill.prepare(run, tmp_path / "data", person="all", progress=False)


def test_a_merge_and_an_import_keep_everyone(run, tmp_path):
    posemill.export(run, "openpose", tmp_path / "json", person="all", progress=False)
    posemill.import_run(tmp_path / "json", tmp_path / "again", progress=False)
    posemill.merge([run], tmp_path / "merged", progress=False)
    for name in ("again", "merged"):
        others = posemill.open_run(tmp_path / name)["a"].others
        assert others.counts.tolist() == [2, 0, 0, 1]


def test_a_picture_shows_everyone_or_the_one_that_is_asked_for(run):
    clip = posemill.open_run(run)["a"]
    from posemill.clips.people import choose_person

    everyone, main = clip.plot(0), choose_person(clip, "main").plot(0)
    width = everyone.shape[1]
    assert (everyone != main).any()
    # The second and third stand right of the first.
    assert not (everyone[:, : width // 3] != main[:, : width // 3])[: main.shape[0] // 2].any()
