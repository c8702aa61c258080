# ruff: noqa
# seen: media/images/COCO_val2014_000000000241.jpg
import sys
import cv2
import mediapipe as mp


class handDetector:
    def __init__(self, mode=False, maxHands=2, modelC=1, detectionCon=0.5, trackCon=0.5):
        self.mpHands = mp.solutions.hands
        self.hands = self.mpHands.Hands(mode, maxHands, modelC, detectionCon, trackCon)
        self.mpDraw = mp.solutions.drawing_utils

    def findHands(self, img, draw=True):
        imgRGB = cv2.cvtColor(img, cv2.COLOR_BGR2RGB)
        self.results = self.hands.process(imgRGB)
        if self.results.multi_hand_landmarks:
            for handLms in self.results.multi_hand_landmarks:
                if draw:
                    self.mpDraw.draw_landmarks(img, handLms, self.mpHands.HAND_CONNECTIONS)
        return img

    def findPosition(self, img, handNo=0):
        lmList = []
        if self.results.multi_hand_landmarks:
            myHand = self.results.multi_hand_landmarks[handNo]
            for id, lm in enumerate(myHand.landmark):
                h, w, c = img.shape
                lmList.append([id, int(lm.x * w), int(lm.y * h)])
        return lmList


detector = handDetector(mode=True, maxHands=4)
img = detector.findHands(cv2.imread(sys.argv[1]))
for number in range(len(detector.results.multi_hand_landmarks)):
    print(detector.findPosition(img, number))
print(int(img.sum()))
