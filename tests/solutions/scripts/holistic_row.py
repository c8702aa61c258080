# ruff: noqa
import hashlib
import json
import sys

import cv2
import mediapipe as mp
import numpy as np
from google.protobuf.json_format import MessageToDict
from mediapipe.framework.formats import landmark_pb2
from mediapipe.python.solutions.drawing_utils import DrawingSpec

mp_drawing = mp.solutions.drawing_utils
mp_styles = mp.solutions.drawing_styles
mp_holistic = mp.solutions.holistic


def extract_keypoints(results):
    pose = (
        np.array([[p.x, p.y, p.z, p.visibility] for p in results.pose_landmarks.landmark]).flatten()
        if results.pose_landmarks
        else np.zeros(33 * 4)
    )
    parts = [pose]
    for part, number in (("face", 478), ("left_hand", 21), ("right_hand", 21)):
        found = getattr(results, f"{part}_landmarks")
        parts.append(
            np.array([[p.x, p.y, p.z] for p in found.landmark]).flatten()
            if found
            else np.zeros(number * 3)
        )
    return np.concatenate(parts)


image = cv2.imread(sys.argv[1])
with mp_holistic.Holistic(
    static_image_mode=True, model_complexity=1, refine_face_landmarks=True
) as holistic:
    image.flags.writeable = False
    results = holistic.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
    image.flags.writeable = True

mp_drawing.draw_landmarks(
    image,
    results.face_landmarks,
    mp_holistic.FACEMESH_TESSELATION,
    landmark_drawing_spec=None,
    connection_drawing_spec=mp_styles.get_default_face_mesh_tesselation_style(),
)
mp_drawing.draw_landmarks(
    image,
    results.face_landmarks,
    mp.solutions.face_mesh_connections.FACEMESH_IRISES,
    None,
    mp_styles.get_default_face_mesh_iris_connections_style(),
)
mp_drawing.draw_landmarks(
    image,
    results.left_hand_landmarks,
    mp_holistic.HAND_CONNECTIONS,
    DrawingSpec(color=(121, 22, 76), thickness=2, circle_radius=4),
    DrawingSpec(color=(121, 44, 250), thickness=2, circle_radius=2),
)
mp_drawing.draw_landmarks(
    image, results.pose_landmarks, mp_holistic.POSE_CONNECTIONS,
    landmark_drawing_spec=mp_styles.get_default_pose_landmarks_style(),
)  # fmt: skip

# Only the upper body, as points of their own.
upper = landmark_pb2.NormalizedLandmarkList()
upper.landmark.extend(results.pose_landmarks.landmark[:25])
upper.landmark.add(x=0.5, y=0.5)
other = landmark_pb2.NormalizedLandmarkList(landmark=[upper.landmark[0]])
other.landmark[0].CopyFrom(results.pose_landmarks.landmark[mp_holistic.PoseLandmark.LEFT_SHOULDER])
other.landmark[0].x += 0.1
mp_drawing.draw_landmarks(image, upper)
mp_drawing.draw_landmarks(image, other)

print(hashlib.sha256(image).hexdigest())
nose = results.pose_landmarks.landmark[mp_holistic.PoseLandmark.NOSE]
height, width, _ = image.shape
print(nose)
print(other)
print(
    mp_drawing._normalized_to_pixel_coordinates(nose.x, nose.y, width, height),
    nose.HasField("visibility"),
    nose.HasField("presence"),
    [field.name for field, _ in nose.ListFields()],
    mp_holistic.HandLandmark.INDEX_FINGER_TIP.value,
    len(mp_holistic.FACEMESH_CONTOURS),
)
print(extract_keypoints(results).astype(np.float32)[::50].tolist())
print(json.dumps(MessageToDict(results.pose_landmarks)["landmark"][:2]))
