# ruff: noqa
import sys
import cv2, matplotlib

matplotlib.use("Agg")
import mediapipe as mp
import matplotlib.pyplot as plt

mp_holistic = mp.solutions.holistic
with mp_holistic.Holistic(static_image_mode=True, refine_face_landmarks=True) as holistic:
    results = holistic.process(cv2.cvtColor(cv2.imread(sys.argv[1]), cv2.COLOR_BGR2RGB))
mp.solutions.drawing_utils.plot_landmarks(
    results.pose_world_landmarks, mp_holistic.POSE_CONNECTIONS, elevation=5, azimuth=20
)
ax = plt.gcf().axes[0]
print(len(ax.lines), len(ax.collections), ax.elev, ax.azim)
print(
    len(results.face_landmarks.landmark),
    results.segmentation_mask is None,
    [round(p.x, 4) for p in results.pose_world_landmarks.landmark][:5],
)
