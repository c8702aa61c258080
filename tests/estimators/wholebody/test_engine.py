"""The whole-body engine on users' files: what it reads and refuses, whom it finds, its runs."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

import posemill
from benchmarks.keypoints.against_rtmlib import people_of
from benchmarks.shared.pose_networks import (
    OnnxGraph,
    make_pictures,
    write_detector,
    write_fixed,
    write_pose,
)
from posemill.errors import ConfigError, WeightsError
from posemill.estimators import engine_info, open_estimator
from posemill.files import sha256_of
from posemill.weights.onnx_files import first_convolution_channels

PICTURE = make_pictures([(120, 90)])[0]


@pytest.mark.parametrize("declared", [[1, 17, 300_000_000], None])
def test_a_file_whose_output_would_fill_the_memory_is_refused_before_it_is_computed(
    tmp_path, declared
):
    graph, path = OnnxGraph(0), tmp_path / "bomb.onnx"
    graph.add("ConstantOfShape", graph.constant([1, 17, 300_000_000]), to="large")
    graph.write(path, [1, 3, 64, 64], {"large": declared})
    with pytest.raises(WeightsError, match=r"its output large has 5,100,000,000 numbers"):
        open_estimator("wholebody", pose=str(path))


@pytest.fixture
def pose(tmp_path):
    return str(write_pose(tmp_path / "pose.onnx", 17))


@pytest.fixture
def find_with(tmp_path, pose):
    """Returns a function: boxes `(boxes, 5)` that the detector says, in 64 x 64; the people."""

    def find(rows, labels=None, **options):
        dets = np.array(rows, np.float32).reshape(1, -1, 5)
        outputs = {"dets": dets, "labels": np.array([labels or [0] * len(rows)], np.int64)}
        detector = str(write_fixed(tmp_path / "detector.onnx", outputs))
        engine = open_estimator("wholebody", pose=pose, detector=detector,
                                **{"detector_kind": "yolox", **options})  # fmt: skip
        return people_of(engine.estimate([PICTURE]), 0)

    return find


def test_the_file_says_which_skeleton_a_run_has(tmp_path):
    assert engine_info("wholebody").skeleton_names[0] == "coco-133"
    for count, names in {
        133: ("coco-133", "coco-17", "openpose-18"),
        26: ("halpe-26", "coco-17", "openpose-18"),
        17: ("coco-17", "openpose-18"),
    }.items():
        path = str(write_pose(tmp_path / f"{count}.onnx", count))
        assert engine_info("wholebody", {"pose": path}).skeleton_names == names
        engine = open_estimator("wholebody", pose=path)
        assert engine.info.skeleton_names == names
        assert engine.estimate([PICTURE]).points.shape == (1, count, 3)


def test_nobody_found_is_an_empty_row_and_not_the_whole_picture(find_with, pose):
    assert find_with([]) == []
    assert find_with([[5, 5, 20, 40, 0.3]]) == [], "0.3 itself is not above it"
    assert len(find_with([[5, 5, 20, 40, 0.31]])) == 1
    assert len(find_with([[5, 5, 20, 40, 0.2]], min_score=0.1)) == 1
    # Boxes that are none are left out.
    wrong = [[5, 5, 5, 40, 0.9], [20, 40, 5, 5, 0.9], [np.nan, 5, 20, 40, 0.9],
             [5, 5, np.inf, 40, 0.9], [5, 5, 20, 40, np.nan]]  # fmt: skip
    assert len(find_with([[5, 5, 20, 40, 0.9], *wrong])) == 1
    # Without a detector the picture is the box.
    assert len(people_of(open_estimator("wholebody", pose=pose).estimate([PICTURE]), 0)) == 1


def test_only_people_count_and_forty_and_one_over_the_edge_are_found(find_with):
    rows = [[5, 5, 20, 40, 0.9], [30, 5, 50, 40, 0.9], [10, 10, 60, 60, 0.9]]
    one, all_ = find_with(rows, [2, 0, 56]), find_with(rows)
    assert (len(one), len(all_)) == (1, 3)
    assert any(np.array_equal(one[0][0], points, equal_nan=True) for points, _ in all_)
    crowd = [[x * 8.0, y * 8.0, x * 8 + 8.0, y * 8 + 8.0, 0.9] for x in range(8) for y in range(5)]
    assert len(find_with(crowd)) == 40
    over = find_with([[-30, 20, 10, 90, 0.9]])[0][0]
    assert np.nanmin(over[:, 0]) < 0
    assert np.isfinite(over[1:]).all()
    # What is beyond the picture is black: half a person is not stretched over the box.
    beside = find_with([[-60, 20, -30, 90, 0.9]])[0]
    assert np.isfinite(beside[0][1:]).all()


def test_points_lie_where_the_bins_say(tmp_path):
    # Bin 32 of 128 along x, bin 96 of 128 along y; a point with a negative sum is not there.
    along_x, along_y = np.zeros((2, 1, 17, 128), np.float32)
    along_x[..., 32], along_y[..., 96] = 0.4, 0.8
    along_x[0, 3], along_y[0, 3] = -1, -1
    along_x[0, 4], along_y[0, 4] = np.nan, np.nan
    path = str(write_fixed(tmp_path / "pose.onnx", {"simcc_x": along_x, "simcc_y": along_y}))
    found = open_estimator("wholebody", pose=path).estimate([np.zeros((90, 120, 3), np.uint8)])
    # The area is 120 x 1.25 = 150 wide and high, around the middle (60, 45).
    np.testing.assert_allclose(
        found.points[0, 0], [(60 - 75 + 37.5) / 120, (45 - 75 + 112.5) / 90, 0]
    )
    assert found.scores[0, 0] == pytest.approx(0.6)
    assert np.isnan(found.points[0, 3:5]).all()
    assert (found.scores[0, 3:5] == 0).all()


def test_outputs_without_names_are_told_apart_by_their_lengths(tmp_path):
    along_x, along_y = np.zeros((1, 17, 96), np.float32), np.zeros((1, 17, 128), np.float32)
    along_x[..., 48], along_y[..., 32] = 1, 1
    size = [1, 3, 64, 48]
    first = str(write_fixed(tmp_path / "a.onnx", {"one": along_x, "two": along_y}, size))
    second = str(write_fixed(tmp_path / "b.onnx", {"one": along_y, "two": along_x}, size))
    frames = [np.zeros((64, 48, 3), np.uint8)]
    points = [
        open_estimator("wholebody", pose=path).estimate(frames).points for path in (first, second)
    ]
    np.testing.assert_allclose(points[0][0, 0, :2], [0.5, 0.5 - 1.25 / 4])
    np.testing.assert_array_equal(points[0], points[1])


def test_batches_find_the_same_people(tmp_path, pose):
    pictures = make_pictures([(320, 240), (97, 131), (128, 96), (5, 7), (640, 300)])
    detector = str(write_detector(tmp_path / "detector.onnx", batch="batch"))
    fixed = str(write_pose(tmp_path / "fixed.onnx", 17, batch=1))
    alone = open_estimator("wholebody", pose=pose, detector=detector).estimate(pictures)
    for path in (pose, fixed):
        found = open_estimator("wholebody", pose=path, detector=detector, batch=4).estimate(
            pictures
        )
        assert found.others.counts.tolist() == alone.others.counts.tolist()
        assert alone.others.counts.sum() > 4
        np.testing.assert_allclose(found.others.points, alone.others.points, atol=1e-6)
        np.testing.assert_allclose(found.points, alone.points, atol=1e-6)


def test_a_detector_that_takes_many_and_answers_for_one_is_asked_one_by_one(tmp_path, pose):
    dets = np.array([[[5, 5, 20, 40, 0.9], [30, 5, 50, 60, 0.8]]], np.float32)
    detector = str(write_fixed(tmp_path / "one.onnx", {"dets": dets}, ["batch", 3, 64, 64]))
    engine = open_estimator("wholebody", pose=pose, detector=detector, detector_kind="yolox",
                            batch=4)  # fmt: skip
    assert engine.estimate([PICTURE] * 3).others.counts.tolist() == [1, 1, 1]
    # One that fails on many is not tried again in silence.
    fails = write_detector(tmp_path / "fails.onnx", has_nms=True, batch="batch")
    with pytest.raises(
        WeightsError, match=r"cannot be run on \(4, 3.*; try engine_options=.'batch': '1'"
    ):
        open_estimator("wholebody", pose=pose, detector=str(fails), batch=4)


def test_the_order_of_colours_is_that_of_rtmlib_or_the_one_that_is_asked_for(pose):
    usual = open_estimator("wholebody", pose=pose).estimate([PICTURE])
    mirrored = np.ascontiguousarray(PICTURE[..., ::-1])
    other = open_estimator("wholebody", pose=pose, colours="rgb").estimate([mirrored])
    np.testing.assert_array_equal(usual.points, other.points)
    assert (
        usual.points != open_estimator("wholebody", pose=pose).estimate([mirrored]).points
    ).any()


def test_boxes_that_a_file_has_decoded_are_taken_as_they_are(tmp_path, pose):
    rows = np.zeros((1, 84, 6), np.float32)
    columns = [(x, y, s) for s in (8, 16, 32) for y in range(64 // s) for x in range(64 // s)]
    raw, decoded = rows.copy(), rows.copy()
    for row, (x, y, stride) in enumerate(columns):
        raw[0, row, :4] = 0.5, 0.25, np.log(2), np.log(3)
        decoded[0, row, :4] = (x + 0.5) * stride, (y + 0.25) * stride, 2 * stride, 3 * stride
    raw[0, 6, 0], decoded[0, 6, 0] = -0.25, 46  # the next cell's is the same person's
    for each in (raw, decoded):
        each[0, [5, 70], 4:] = 0.9
        each[0, 6, 4:] = 0.88
    found = [
        open_estimator("wholebody", pose=pose,
                       detector=str(write_fixed(tmp_path / "detector.onnx", {"output": each})))
        .estimate([PICTURE])
        for each in (raw, decoded)
    ]  # fmt: skip
    assert found[0].others.counts.tolist() == [1]
    np.testing.assert_allclose(found[0].points, found[1].points, atol=1e-5)


def test_a_detector_of_any_size_sees_640_or_what_is_asked_for(tmp_path, pose):
    detector = str(write_detector(tmp_path / "detector.onnx", is_open=True))
    fixed = str(write_detector(tmp_path / "fixed.onnx", size_wh=(96, 96)))
    identity = open_estimator("wholebody", pose=pose, detector=detector).identity()
    assert (identity["pose"], identity["pose_size"]) == ("pose.onnx", "48x64")
    assert (identity["detector_size"], identity["min_score"]) == ("640x640", "0.7")
    assert open_estimator("wholebody", pose=pose).identity()["detector"] == "None"
    asked = open_estimator("wholebody", pose=pose, detector=detector, detector_size=96)
    assert asked.identity()["detector_size"] == "96x96"
    same = open_estimator("wholebody", pose=pose, detector=fixed)
    np.testing.assert_array_equal(asked.estimate([PICTURE]).points, same.estimate([PICTURE]).points)


def test_half_precision_files_are_read(tmp_path, pose):
    model = onnx.load(pose)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for weights in model.graph.initializer:
        if weights.data_type == onnx.TensorProto.FLOAT:
            half = onnx.numpy_helper.to_array(weights).astype(np.float16)
            weights.CopyFrom(onnx.numpy_helper.from_array(half, weights.name))
    onnx.save(model, tmp_path / "half.onnx")
    whole = open_estimator("wholebody", pose=pose).estimate([PICTURE])
    half = open_estimator("wholebody", pose=str(tmp_path / "half.onnx")).estimate([PICTURE])
    assert half.points.dtype == half.scores.dtype == np.float32
    np.testing.assert_allclose(half.scores, whole.scores, atol=0.01)


def test_yolox_and_rtmdet_are_told_apart_by_their_first_convolution(tmp_path, pose, find_with):
    for kind, channels in (("yolox", 12), ("rtmdet", 3)):
        path = write_detector(tmp_path / f"{kind}.onnx", kind, has_nms=True)
        assert first_convolution_channels(path) == channels
        engine = open_estimator("wholebody", pose=pose, detector=str(path))
        assert engine.identity()["detector_kind"] == kind
    with pytest.raises(
        ConfigError, match=r"not plain whether this is YOLOX or RTMDet.*'detector_kind': 'yolox'"
    ):
        find_with([], detector_kind="auto")


def test_a_missing_or_broken_file_is_named_before_anything_runs(tmp_path, pose):
    with pytest.raises(ConfigError, match=r"needs a pose network of yours.*'pose': 'FILE'"):
        open_estimator("wholebody")
    with pytest.raises(ConfigError, match=r"pose: there is no file nowhere.onnx"):
        open_estimator("wholebody", pose="nowhere.onnx")
    with pytest.raises(ConfigError, match=r"detector: there is no file nowhere.onnx"):
        open_estimator("wholebody", pose=pose, detector="nowhere.onnx")
    whole = Path(pose).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"no network, but a sentence"):
        (tmp_path / "cut.onnx").write_bytes(content)
        with pytest.raises(WeightsError, match=r"cannot load .*cut.onnx.*copy or export it again"):
            open_estimator("wholebody", pose=str(tmp_path / "cut.onnx"))


AXIS = np.zeros((1, 21, 128), np.float32)
USUAL = [1, 3, 64, 64]
SIMCC = {"simcc_x": AXIS[:, :17], "simcc_y": AXIS[:, :17]}


@pytest.mark.parametrize(
    ("outputs", "picture", "message"),
    [
        ({"heat": np.zeros((1, 17, 16, 12), np.float32)}, USUAL,
         r"SimCC network's two outputs.*got heat \(1, 17, 16, 12\)"),
        ({"simcc_x": AXIS, "simcc_y": AXIS}, USUAL,
         r"has 21 points; known: 133 \(coco-133\), 26"),
        ({"simcc_x": AXIS[:, :17], "simcc_y": AXIS[:, :17, 1:]}, USUAL,
         "SimCC network's two outputs"),
        (SIMCC, [1, 1, 64, 64], r"expected one picture as input.*got input \(1, 1, 64, 64\)"),
        (SIMCC, [1, 3, 64, "width"], "leaves the size of its picture open"),
        ({"dets": AXIS[..., :4], "points": np.zeros((1, 21, 17, 3), np.float32)}, USUAL,
         r"expected RTMO's boxes \(batch, people, 5\)"),
        (SIMCC, [4, 3, 64, 64], "it takes 4 pictures at a time; expected a file that"),
    ],
)  # fmt: skip
def test_pose_files_with_other_inputs_or_outputs_are_refused_with_what_they_have(
    tmp_path, outputs, picture, message
):
    with pytest.raises(ConfigError, match=message):
        open_estimator("wholebody", pose=str(write_fixed(tmp_path / "a.onnx", outputs, picture)))


def test_detectors_with_other_outputs_are_refused_with_what_they_have(tmp_path, pose):
    few = str(write_fixed(tmp_path / "few.onnx", {"output": np.zeros((1, 83, 85), np.float32)}))
    odd = str(write_detector(tmp_path / "odd.onnx", has_nms=True, is_open=True))
    for detector, kind, message in (
        (pose, ConfigError, r"boxes \(batch, boxes, 5\).*5 \+ classes\).*got simcc_x"),
        (few, ConfigError, r"\(batch, 84, 5 \+ classes\) for a picture of 64 x 64"),
        (odd, WeightsError, r"detector .*odd.onnx cannot be run on \(1, 3, 640, 640\)"),
    ):
        with pytest.raises(kind, match=message):
            open_estimator("wholebody", pose=pose, detector=detector)


def test_a_run_has_everybody_and_the_sums_of_both_files(tmp_path):
    pictures = [*make_pictures([(320, 240), (640, 300)]), np.zeros((40, 30, 3), np.uint8)]
    (tmp_path / "pictures").mkdir()
    for name, picture in zip("abc", pictures, strict=True):
        assert cv2.imwrite(str(tmp_path / "pictures" / f"{name}.png"), picture[..., ::-1])
    options = {
        "pose": str(write_pose(tmp_path / "pose.onnx", 26)),
        "detector": str(write_detector(tmp_path / "detector.onnx", has_nms=True)),
    }
    run = tmp_path / "run"
    posemill.extract(tmp_path / "pictures", out=run, engine="wholebody", engine_options=options,
                     executor="serial", progress=False)  # fmt: skip
    expected = open_estimator("wholebody", **options).estimate(pictures)
    (clip,) = posemill.open_run(run).clips()
    assert clip.skeleton_name == "halpe-26"
    np.testing.assert_array_equal(clip.points, expected.points)
    assert clip.others.counts.tolist() == expected.others.counts.tolist()
    assert clip.others.counts.sum() > 5
    engine = json.loads((run / "manifest.json").read_text())["engine"]
    for name, path in options.items():
        assert engine[f"sha256 {name}"] == sha256_of(Path(path))
    # Another file under the same name is another engine: the run does not go on with it.
    write_pose(tmp_path / "pose.onnx", 26, seed=5)
    with pytest.raises(posemill.PosemillError, match="sha256 pose"):
        posemill.extract(tmp_path / "pictures", out=run, engine="wholebody",
                         engine_options=options, executor="serial", progress=False)  # fmt: skip
    for name in ("coco", "openpose", "npz", "csv", "parquet"):
        posemill.export(run, name, tmp_path / f"out.{name}", progress=False,
                        person="all" if name in ("coco", "openpose") else "main")  # fmt: skip
    people = json.loads((tmp_path / "out.coco").read_text())["annotations"]
    found = [*expected.scores, *expected.others.scores]
    assert len(people) == sum(bool(scores.any()) for scores in found)
