# ruff: noqa
import sys
import cv2, numpy as np, math
import mediapipe.python.solutions.holistic as mp_holistic
from mediapipe.python.solutions import drawing_utils as mp_drawing
from mediapipe.python.solutions.drawing_utils import _normalized_to_pixel_coordinates, DrawingSpec

image = cv2.imread(sys.argv[1])
h, w = image.shape[:2]
holistic = mp_holistic.Holistic(static_image_mode=True)
results = holistic.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
for part in ("face_landmarks", "pose_landmarks", "left_hand_landmarks"):
    l = getattr(results, part)
    if not l:
        print(part, "none")
        continue
    xs = [p.x for p in l.landmark]
    ys = [p.y for p in l.landmark]
    print(part, int(min(xs) * w), int(max(xs) * w), int(min(ys) * h), int(max(ys) * h))
for p in results.pose_landmarks.landmark:
    p.x = 1 - p.x
print(
    _normalized_to_pixel_coordinates(0.3, 1.2, w, h),
    _normalized_to_pixel_coordinates(0.3, 1.0, w, h),
)
mp_drawing.draw_landmarks(
    image,
    results.pose_landmarks,
    mp_holistic.POSE_CONNECTIONS,
    {i: DrawingSpec(color=(i, 2 * i, 0)) for i in range(33)},
    {c: DrawingSpec(thickness=3) for c in mp_holistic.POSE_CONNECTIONS},
)
print(int(image.sum()))
holistic.close()
