# ruff: noqa
import sys
import cv2
import mediapipe as mp


class HolisticDetector:
    def __init__(self, mode=False, complexity=1, smooth=True, detectionCon=0.5, trackCon=0.5):
        self.mpDraw = mp.solutions.drawing_utils
        self.mpHolistic = mp.solutions.holistic
        self.holistic = self.mpHolistic.Holistic(
            mode,
            complexity,
            smooth,
            min_detection_confidence=detectionCon,
            min_tracking_confidence=trackCon,
        )

    def find(self, img, draw=True):
        self.results = self.holistic.process(cv2.cvtColor(img, cv2.COLOR_BGR2RGB))
        if self.results.pose_landmarks and draw:
            self.mpDraw.draw_landmarks(
                img, self.results.pose_landmarks, self.mpHolistic.POSE_CONNECTIONS
            )
        return img

    def positions(self, img):
        out = []
        if self.results.pose_landmarks:
            for id, lm in enumerate(self.results.pose_landmarks.landmark):
                h, w, c = img.shape
                out.append([id, int(lm.x * w), int(lm.y * h)])
        return out


img = cv2.imread(sys.argv[1])
d = HolisticDetector(True)
img = d.find(img)
print(d.positions(img)[::8], img.sum())
