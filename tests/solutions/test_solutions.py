"""What every solution takes and refuses, in which words, and what it keeps between pictures."""

import numpy as np
import pytest

import posemill as mp
from posemill.errors import ConfigError, WeightsError

SOLUTIONS = {
    "Holistic": lambda **options: mp.solutions.holistic.Holistic(**options),
    "Hands": lambda **options: mp.solutions.hands.Hands(**options),
    "FaceMesh": lambda **options: mp.solutions.face_mesh.FaceMesh(**options),
    "Pose": lambda **options: mp.solutions.pose.Pose(**options),
    "FaceDetection": lambda **options: mp.solutions.face_detection.FaceDetection(**options),
    "SelfieSegmentation": lambda **options: mp.solutions.selfie_segmentation.SelfieSegmentation(
        **options
    ),
}


@pytest.fixture(scope="module", params=SOLUTIONS)
def solution(request, model_files):
    try:
        opened = SOLUTIONS[request.param]()
    except WeightsError as error:
        pytest.skip(f"no model files: {error}")
    with opened:
        yield opened


@pytest.mark.parametrize(
    ("image", "kind", "words"),
    [
        (None, ValueError, "got None; cv2.imread returns None"),
        ("photo.jpg", ValueError, "expected a numpy array .* got str; read the picture first"),
        (np.zeros((8, 8), np.uint8), ValueError, r"got shape \(8, 8\); cv2.cvtColor"),
        (np.zeros((8, 8, 4), np.uint8), ValueError, r"got shape \(8, 8, 4\); .*image\[..., :3\]"),
        (np.zeros((8, 8, 3)), TypeError, r"got float64; \(image \* 255\).astype"),
        (np.zeros((8, 8, 3), np.int32), TypeError, "got int32"),
        (np.zeros((0, 8, 3), np.uint8), ValueError, "got one without pixels"),
    ],
)
def test_what_is_no_picture_is_refused(solution, image, kind, words):
    with pytest.raises(kind, match=words):
        solution.process(image)


def test_odd_pictures_pass_through(solution, photo):
    solution.reset()
    solution.process(np.full((1, 1, 3), 90, np.uint8))
    solution.reset()
    whole = solution.process(np.ascontiguousarray(photo[::2, ::2]))
    solution.reset()
    assert str(solution.process(photo[::2, ::2])) == str(whole)  # not contiguous
    solution.reset()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("Holistic", {"model_complexity": 3}, "model_complexity: expected 0 to 2, got 3"),
        ("Holistic", {"min_detection_confidence": 7}, "expected 0 to 1, got 7"),
        ("Holistic", {"min_tracking_confidence": float("nan")}, "expected 0 to 1, got nan"),
        ("Holistic", {"threads": "two"}, "threads: expected at least 1, got 'two'"),
        ("Hands", {"max_num_hands": 0}, "max_num_hands: expected a whole number of at least 1"),
        ("Hands", {"model_complexity": 2}, "model_complexity: expected 0 to 1, got 2"),
        ("Hands", {"min_detection_confidence": 1.5}, "expected 0 to 1, got 1.5"),
        ("Hands", {"min_tracking_confidence": "a"}, "expected 0 to 1, got 'a'"),
        ("FaceMesh", {"max_num_faces": 0}, "max_num_faces: expected a whole number of at least 1"),
        ("FaceMesh", {"min_tracking_confidence": -1}, "expected 0 to 1, got -1"),
        ("Pose", {"model_complexity": 3}, "model_complexity: expected 0 to 2, got 3"),
        ("Pose", {"min_detection_confidence": None}, "expected 0 to 1, got None"),
        ("FaceDetection", {"min_detection_confidence": 7}, "expected 0 to 1, got 7"),
        ("SelfieSegmentation", {"model_selection": 2}, "model_selection: expected 0 or 1, got 2"),
    ],
)
def test_options_that_cannot_be_are_said(name, options, words):
    with pytest.raises(ConfigError, match=words):
        SOLUTIONS[name](**options)


def test_a_closed_one_says_so(solution, photo):
    other = SOLUTIONS[type(solution).__name__]()
    other.close()
    other.reset()
    other.close()  # twice does no harm
    with pytest.raises(ValueError, match=f"this {type(solution).__name__} was closed; make a new"):
        other.process(photo)


@pytest.mark.parametrize("name", ["Hands", "FaceMesh", "Pose"])
def test_static_pictures_do_not_remember(need_model, photo, name):
    need_model("palm_detection_full")
    shifted = np.roll(photo, 6, axis=1)
    with SOLUTIONS[name](static_image_mode=True) as shared, SOLUTIONS[name]() as video:
        alone = str(shared.process(shifted))
        shared.process(photo)
        assert str(shared.process(shifted)) == alone
        if name != "Hands":  # whose network sees none here
            video.process(photo)
            assert str(video.process(shifted)) != alone


def test_face_detection_ignores_its_confidence_as_stock_does(model_files, photo):
    kind = mp.solutions.face_detection.FaceDetection
    found = []
    for confidence in (0.01, 0.99):
        with kind(min_detection_confidence=confidence) as detection:
            found.append(str(detection.process(photo).detections))
    assert found[0] == found[1] != "None"


@pytest.mark.parametrize("name", ["Pose", "Holistic"])
def test_masks_of_two_sizes_need_a_reset_or_no_smoothing(model_files, photo, name):
    small = np.ascontiguousarray(photo[:480, :500])
    with SOLUTIONS[name](enable_segmentation=True) as smoothing:
        mask = smoothing.process(photo).segmentation_mask
        assert mask.shape == photo.shape[:2]
        assert mask.dtype == np.float32
        assert not mask.flags.writeable
        with pytest.raises(RuntimeError, match="this picture is 500 x 480, the one before was 512"):
            smoothing.process(small)
        smoothing.reset()
        assert smoothing.process(small).segmentation_mask.shape == (480, 500)
    with SOLUTIONS[name](enable_segmentation=True, smooth_segmentation=False) as plain:
        plain.process(photo)
        assert plain.process(small).segmentation_mask.shape == (480, 500)
    with SOLUTIONS[name]() as without:
        assert without.process(photo).segmentation_mask is None


def test_static_pictures_are_independent_after_a_reset(model_files, photo):
    shifted = np.roll(photo, 4, axis=1)
    with mp.Holistic(static_image_mode=True) as holistic:
        alone = holistic.process(shifted).face_landmarks.to_numpy()
        holistic.reset()
        holistic.process(photo)
        remembering = holistic.process(shifted).face_landmarks.to_numpy()
        holistic.reset()
        again = holistic.process(shifted).face_landmarks.to_numpy()
    np.testing.assert_array_equal(alone, again)
    assert (alone != remembering).any()  # as in the original, hands and face look back


STOCK_ORDER = (
    "static_image_mode", "model_complexity", "smooth_landmarks", "enable_segmentation",
    "smooth_segmentation", "refine_face_landmarks", "min_detection_confidence",
    "min_tracking_confidence",
)  # fmt: skip


def test_all_eight_arguments_can_be_given_by_position_in_the_order_of_the_original(
    model_files, photo
):
    values = (True, 1, False, False, True, False, 0.6, 0.7)
    named = dict(zip(STOCK_ORDER, values, strict=True))
    with mp.Holistic(*values) as one, mp.Holistic(**named) as other:
        assert one.process(photo).pose_landmarks == other.process(photo).pose_landmarks
        assert one._engine.options["min_detection_confidence"] == 0.6
        assert one._engine.options["min_tracking_confidence"] == 0.7
        assert one._engine.options["smooth_landmarks"] is False


def test_results_of_one_picture_do_not_change_with_the_next(model_files, photo):
    with mp.Holistic() as holistic:
        first = holistic.process(photo)
        kept = first.pose_landmarks.to_numpy()
        for shift in (8, 16):
            holistic.process(np.roll(photo, shift, axis=1))
    read = [(point.x, point.y, point.z) for point in first.pose_landmarks.landmark]
    np.testing.assert_array_equal(np.array(read, np.float32), kept)
