# ruff: noqa
import sys
import csv, io, cv2, numpy as np
import mediapipe as mp

mp_holistic = mp.solutions.holistic
mp_drawing = mp.solutions.drawing_utils
image = cv2.imread(sys.argv[1])
with mp_holistic.Holistic(static_image_mode=True) as holistic:
    results = holistic.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
num_coords = len(results.pose_landmarks.landmark) + len(results.face_landmarks.landmark)
landmarks = ["class"]
for val in range(1, num_coords + 1):
    landmarks += ["x{}".format(val), "y{}".format(val), "z{}".format(val), "v{}".format(val)]
pose_row = list(
    np.array([[l.x, l.y, l.z, l.visibility] for l in results.pose_landmarks.landmark]).flatten()
)
face_row = list(
    np.array([[l.x, l.y, l.z, l.visibility] for l in results.face_landmarks.landmark]).flatten()
)
row = pose_row + face_row
row.insert(0, "Happy")
f = io.StringIO()
csv.writer(f).writerow(row)
print(len(landmarks), len(row), len(f.getvalue()) > 100)
coords = tuple(
    np.multiply(
        np.array(
            (
                results.pose_landmarks.landmark[mp_holistic.PoseLandmark.LEFT_EAR].x,
                results.pose_landmarks.landmark[mp_holistic.PoseLandmark.LEFT_EAR].y,
            )
        ),
        [640, 480],
    ).astype(int)
)
print([int(c) for c in coords])
cv2.rectangle(
    image,
    (int(coords[0]), int(coords[1])),
    (int(coords[0]) + 60, int(coords[1]) - 30),
    (245, 117, 16),
    -1,
)
mp_drawing.draw_landmarks(
    image,
    results.face_landmarks,
    mp_holistic.FACEMESH_TESSELATION,
    mp_drawing.DrawingSpec(color=(80, 110, 10), thickness=1, circle_radius=1),
    mp_drawing.DrawingSpec(color=(80, 256, 121), thickness=1, circle_radius=1),
)
print(int(image.sum()))
