# ruff: noqa
# seen: media/images/COCO_val2014_000000000241.jpg
import sys
import cv2
import mediapipe as mp

mp_hands = mp.solutions.hands

with mp_hands.Hands(static_image_mode=True, max_num_hands=2, min_detection_confidence=0.5) as hands:
    for file in [sys.argv[1]]:
        image = cv2.flip(cv2.imread(file), 1)
        results = hands.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
        print("Handedness:", [h.classification[0].label for h in results.multi_handedness])
        if not results.multi_hand_landmarks:
            continue
        image_height, image_width, _ = image.shape
        for hand_landmarks in results.multi_hand_landmarks:
            tip = hand_landmarks.landmark[mp_hands.HandLandmark.INDEX_FINGER_TIP]
            print(f"Index finger tip: ({tip.x * image_width:.2f}, {tip.y * image_height:.2f})")
            print(tip.HasField("visibility"), len(hand_landmarks.landmark))
        for world in results.multi_hand_world_landmarks:
            print([round(p.x, 4) for p in world.landmark[:5]])
