# ruff: noqa
# seen: media/videos/sentence_320x240.mp4
import sys
import cv2
import numpy as np
import mediapipe as mp

face_mesh = mp.solutions.face_mesh.FaceMesh(
    min_detection_confidence=0.5, min_tracking_confidence=0.5
)
cap = cv2.VideoCapture(sys.argv[1])
for n in range(6):
    success, image = cap.read()
    image = cv2.cvtColor(cv2.flip(image, 1), cv2.COLOR_BGR2RGB)
    image.flags.writeable = False
    results = face_mesh.process(image)
    img_h, img_w, img_c = image.shape
    if results.multi_face_landmarks:
        for face_landmarks in results.multi_face_landmarks:
            face_2d, face_3d = [], []
            for idx, lm in enumerate(face_landmarks.landmark):
                if idx in (33, 263, 1, 61, 291, 199):
                    x, y = int(lm.x * img_w), int(lm.y * img_h)
                    face_2d.append([x, y])
                    face_3d.append([x, y, lm.z])
            face_2d = np.array(face_2d, dtype=np.float64)
            face_3d = np.array(face_3d, dtype=np.float64)
            cam_matrix = np.array([[img_w, 0, img_h / 2], [0, img_w, img_w / 2], [0, 0, 1.0]])
            ok, rot_vec, trans_vec = cv2.solvePnP(face_3d, face_2d, cam_matrix, np.zeros((4, 1)))
            rmat, jac = cv2.Rodrigues(rot_vec)
            angles = cv2.RQDecomp3x3(rmat)[0]
            print(n, face_2d.astype(int).tolist(), [round(a * 360, 1) for a in angles[:2]])
