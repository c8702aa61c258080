# ruff: noqa
# seen: media/images/COCO_val2014_000000000241.jpg
import sys
import cv2
import numpy as np
import mediapipe as mp

mp_pose = mp.solutions.pose
BG_COLOR = (192, 192, 192)
with mp_pose.Pose(
    static_image_mode=True,
    model_complexity=1,
    enable_segmentation=True,
    min_detection_confidence=0.5,
) as pose:
    image = cv2.imread(sys.argv[1])
    image_height, image_width, _ = image.shape
    results = pose.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
    nose = results.pose_landmarks.landmark[mp_pose.PoseLandmark.NOSE]
    print(f"Nose coordinates: ({nose.x * image_width:.2f}, {nose.y * image_height:.2f})")
    annotated_image = image.copy()
    condition = np.stack((results.segmentation_mask,) * 3, axis=-1) > 0.1
    bg_image = np.zeros(image.shape, dtype=np.uint8)
    bg_image[:] = BG_COLOR
    annotated_image = np.where(condition, annotated_image, bg_image)
    print(results.segmentation_mask.shape, results.segmentation_mask.dtype, int(condition.sum()))
    mp.solutions.drawing_utils.draw_landmarks(
        annotated_image, results.pose_landmarks, mp_pose.POSE_CONNECTIONS
    )
    print(int(annotated_image.sum()))
    print([round(p.z, 4) for p in results.pose_world_landmarks.landmark[:6]])
