# ruff: noqa
# seen: media/videos/sentence_320x240.mp4
import sys
import cv2
import numpy as np
import mediapipe as mp

mp_pose = mp.solutions.pose


def calculate_angle(a, b, c):
    a, b, c = np.array(a), np.array(b), np.array(c)
    radians = np.arctan2(c[1] - b[1], c[0] - b[0]) - np.arctan2(a[1] - b[1], a[0] - b[0])
    angle = np.abs(radians * 180.0 / np.pi)
    return 360 - angle if angle > 180.0 else angle


cap = cv2.VideoCapture(sys.argv[1])
counter, stage = 0, None
with mp_pose.Pose(model_complexity=1, smooth_landmarks=True) as pose:
    for n in range(20):
        ret, frame = cap.read()
        if not ret:
            break
        results = pose.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        try:
            landmarks = results.pose_landmarks.landmark
            L = mp_pose.PoseLandmark
            points = [
                [landmarks[p.value].x, landmarks[p.value].y]
                for p in (L.LEFT_SHOULDER, L.LEFT_ELBOW, L.LEFT_WRIST)
            ]
            angle = calculate_angle(*points)
            if angle > 160:
                stage = "down"
            if angle < 30 and stage == "down":
                stage = "up"
                counter += 1
            print(n, round(float(angle), 2), stage, counter, round(landmarks[L.NOSE].visibility, 4))
        except AttributeError:
            print(n, "nobody")
