# ruff: noqa
# seen: media/videos/sentence_320x240.mp4
import sys
import cv2 as cv
import numpy as np
import mediapipe as mp

LEFT_EYE = [362, 382, 381, 380, 374, 373, 390, 249, 263, 466, 388, 387, 386, 385, 384, 398]
RIGHT_EYE = [33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246]
LEFT_IRIS, RIGHT_IRIS = [474, 475, 476, 477], [469, 470, 471, 472]
cap = cv.VideoCapture(sys.argv[1])
mp_face_mesh = mp.solutions.face_mesh
with mp_face_mesh.FaceMesh(max_num_faces=1, refine_landmarks=True) as face_mesh:
    for n in range(6):
        ret, frame = cap.read()
        rgb = cv.cvtColor(cv.flip(frame, 1), cv.COLOR_BGR2RGB)
        h, w = rgb.shape[:2]
        results = face_mesh.process(rgb)
        if results.multi_face_landmarks:
            mesh = np.array(
                [
                    np.multiply([p.x, p.y], [w, h]).astype(int)
                    for p in results.multi_face_landmarks[0].landmark
                ]
            )
            (cx, cy), radius = cv.minEnclosingCircle(mesh[LEFT_IRIS])
            wide = np.linalg.norm(mesh[362] - mesh[263])
            tall = np.linalg.norm(mesh[386] - mesh[374])
            print(
                n, mesh.shape, round(cx, 1), round(cy, 1), round(radius, 1), round(tall / wide, 3)
            )
            print(mesh[RIGHT_EYE].tolist(), mesh[RIGHT_IRIS].tolist(), mesh[LEFT_EYE].sum())
