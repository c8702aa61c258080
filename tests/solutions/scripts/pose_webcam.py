# ruff: noqa
# seen: media/videos/sentence_320x240.mp4
import sys
import cv2
import mediapipe as mp

mp_drawing = mp.solutions.drawing_utils
mp_drawing_styles = mp.solutions.drawing_styles
mp_pose = mp.solutions.pose

cap = cv2.VideoCapture(sys.argv[1])
n = 0
with mp_pose.Pose(min_detection_confidence=0.5, min_tracking_confidence=0.5) as pose:
    while cap.isOpened():
        success, image = cap.read()
        if not success or n == 10:
            break
        n += 1
        results = pose.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
        mp_drawing.draw_landmarks(
            image,
            results.pose_landmarks,
            mp_pose.POSE_CONNECTIONS,
            landmark_drawing_spec=mp_drawing_styles.get_default_pose_landmarks_style(),
        )
        print(n, results.pose_landmarks is not None, results.segmentation_mask, int(image.sum()))
