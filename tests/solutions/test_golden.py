"""Every solution gives what stock MediaPipe 0.10.21 gave for the same pictures."""

import json
import os
from importlib import import_module
from pathlib import Path

import cv2
import numpy as np
import pytest

from posemill.errors import WeightsError

FOLDER = Path(__file__).parent.parent.parent.parent / "shared"
GOLDEN = sorted((FOLDER / "golden" / "solutions").glob("*.npz"))
CLASSES = {
    "hands": "Hands", "face_mesh": "FaceMesh", "pose": "Pose", "holistic": "Holistic",
    "face_detection": "FaceDetection", "selfie_segmentation": "SelfieSegmentation",
}  # fmt: skip
PLACES = ("media/images", "datasets/coco_people/images", "media/clips/asl_house",
          "media/clips/wlasl_00335")  # fmt: skip
MAX_PIXELS = 0.01
# The sigmoid of stock's networks is not the C library's.
MAX_HANDEDNESS = 2e-7
# Pictures of a file that are looked at, unless POSEMILL_ALL_FRAMES is set: all takes minutes.
MAX_FRAMES = {"image": 6, "video": 10, "pan": 10}  # the black frame of a pan is its ninth
if os.environ.get("POSEMILL_ALL_FRAMES"):
    MAX_FRAMES = {}


def pictures_of(golden, what):
    """Yield each frame, and whether the state is reset before it."""
    mode = str(golden["mode"])
    places = [
        place for place in PLACES if what not in ("asl_house", "wlasl_00335") or what in place
    ]
    for name in map(str, golden["names"][: MAX_FRAMES.get(mode)]):
        file_name, _, number = name.partition("#")
        path = next(FOLDER / place / file_name for place in places
                    if (FOLDER / place / file_name).is_file())  # fmt: skip
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        picture = np.ascontiguousarray(cv2.imread(str(path), flags)[..., ::-1])
        if mode != "pan":
            yield picture, mode == "image"
            continue
        step = int(number)
        height, width = picture.shape[:2]
        tall, wide = 4 * height // 5, 4 * width // 5
        y, x = (height - tall) * step // 15, (width - wide) * step // 15
        frame = np.ascontiguousarray(picture[y : y + tall, x : x + wide])
        yield (np.zeros_like(frame) if step == 8 else frame), step == 0


def open_solution(golden):
    name = str(golden["solution"])
    options = json.loads(str(golden["options"]))
    if str(golden["mode"]) == "image" and name not in ("face_detection", "selfie_segmentation"):
        options["static_image_mode"] = True
    try:
        return getattr(import_module(f"posemill.solutions.{name}"), CLASSES[name])(**options)
    except WeightsError as error:
        pytest.skip(f"no model files: {error}")


def rows(landmarks, *fields):
    return np.array(
        [[getattr(point, field) for field in fields] for point in landmarks.landmark], np.float32
    )


def check_points(landmarks, stock, size_wh, *fields):
    ours = rows(landmarks, "x", "y", "z", *fields)
    apart = (ours[:, :2].astype(np.float64) - stock[:, :2]) * size_wh
    assert np.linalg.norm(apart, axis=-1).max() <= MAX_PIXELS
    np.testing.assert_allclose(ours[:, 2:], stock[:, 2:], atol=1e-5)


def check_hands(results, golden, row):
    labels = [label for label in golden["handedness"][row] if label]
    hands = results.multi_hand_landmarks or []
    assert len(hands) == len(labels)
    assert (results.multi_hand_landmarks is None) == (not labels)
    for index, hand in enumerate(hands):
        check_points(hand, golden["hands"][row, index], golden["size_wh"][row])
        world = rows(results.multi_hand_world_landmarks[index], "x", "y", "z")
        np.testing.assert_allclose(world, golden["hands_world"][row, index], atol=1e-5)
        (side,) = results.multi_handedness[index].classification
        assert side.label == labels[index]
        assert side.index == {"Left": 0, "Right": 1}[side.label]
        assert abs(side.score - golden["handedness_score"][row, index]) <= MAX_HANDEDNESS


def check_face_mesh(results, golden, row):
    stock = [face for face in golden["faces"][row] if not np.isnan(face).any()]
    faces = results.multi_face_landmarks or []
    assert len(faces) == len(stock)
    assert (results.multi_face_landmarks is None) == (not stock)
    for face, expected in zip(faces, stock, strict=True):
        check_points(face, expected, golden["size_wh"][row])


def check_pose(results, golden, row):
    stock, world = golden["pose"][row], golden["pose_world"][row]
    assert (results.pose_landmarks is None) == np.isnan(stock).any()
    if results.pose_landmarks is not None:
        check_points(results.pose_landmarks, stock, golden["size_wh"][row], "visibility")
        metres = rows(results.pose_world_landmarks, "x", "y", "z", "visibility")
        np.testing.assert_allclose(metres, world, atol=1e-5)
    check_mask(results, golden, row)


def check_holistic(results, golden, row):
    check_pose(results, golden, row)
    for part in ("face", "left_hand", "right_hand"):
        found, stock = getattr(results, f"{part}_landmarks"), golden[part][row]
        assert (found is None) == np.isnan(stock).any(), part
        if found is not None:
            check_points(found, stock, golden["size_wh"][row])


def check_face_detection(results, golden, row):
    number = int(golden["num_faces"][row])
    found = results.detections or []
    assert len(found) == number
    assert (results.detections is None) == (number == 0)
    for index, detection in enumerate(found):
        box = detection.location_data.relative_bounding_box
        values = np.array([box.xmin, box.ymin, box.width, box.height])
        np.testing.assert_allclose(values, golden["boxes"][row, index], atol=1e-6)
        points = detection.location_data.relative_keypoints
        places = np.array([(point.x, point.y) for point in points])
        np.testing.assert_allclose(places, golden["keypoints"][row, index], atol=1e-6)
        assert abs(detection.score[0] - golden["scores"][row, index]) <= 1e-6


def check_mask(results, golden, row):
    mask, name = results.segmentation_mask, f"mask_{row:03d}"
    assert (mask is not None) == (name in golden)
    if mask is not None:
        assert mask.dtype == np.float32
        assert mask.shape == golden[name].shape
        as_bytes = np.floor(mask * 255 + 0.5).astype(np.int16)
        assert np.abs(as_bytes - golden[name]).max() <= 1
        np.testing.assert_allclose(mask[::16, ::16], golden[f"mask_grid_{row:03d}"], atol=1 / 255)


CHECKS = {
    "hands": check_hands, "face_mesh": check_face_mesh, "pose": check_pose,
    "holistic": check_holistic, "face_detection": check_face_detection,
    "selfie_segmentation": check_mask,
}  # fmt: skip


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_results_are_those_of_stock(path, model_files):
    with np.load(path, allow_pickle=False) as stored:
        golden = dict(stored)
    check = CHECKS[str(golden["solution"])]
    with open_solution(golden) as solution:
        for row, (picture, resets) in enumerate(pictures_of(golden, path.name.split(".")[0])):
            if resets and row:
                solution.reset()
            results = solution.process(picture)
            assert picture.shape[1::-1] == tuple(golden["size_wh"][row])
            check(results, golden, row)


def test_there_is_something_to_compare_with(shared):
    assert len(GOLDEN) >= 41
