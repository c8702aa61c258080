# ruff: noqa
# seen: media/videos/sentence_320x240.mp4
import sys, math
import cv2
import mediapipe as mp
from google.protobuf.json_format import MessageToDict

TIPS = [4, 8, 12, 16, 20]
hands = mp.solutions.hands.Hands(False, 2, 1, 0.7, 0.5)


def angle(a, b, c):
    ab, cb = (a.x - b.x, a.y - b.y), (c.x - b.x, c.y - b.y)
    dot = ab[0] * cb[0] + ab[1] * cb[1]
    return math.degrees(math.acos(dot / (math.hypot(*ab) * math.hypot(*cb))))


cap = cv2.VideoCapture(sys.argv[1])
for n in range(14):
    ok, frame = cap.read()
    results = hands.process(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    if not results.multi_hand_landmarks:
        print(n, "no hand")
        continue
    for hand, handedness in zip(results.multi_hand_landmarks, results.multi_handedness):
        lm = hand.landmark
        label = MessageToDict(handedness)["classification"][0]["label"]
        fingers = [int(angle(lm[t - 3], lm[t - 2], lm[t]) > 160) for t in TIPS]
        print(n, label, fingers, "fist" if sum(fingers) == 0 else sum(fingers))
hands.close()
