# ruff: noqa
# seen: media/images/COCO_val2014_000000000241.jpg
import sys
import cv2
import mediapipe as mp

mp_face_detection = mp.solutions.face_detection
mp_drawing = mp.solutions.drawing_utils
for model in (0, 1):
    with mp_face_detection.FaceDetection(model_selection=model, min_detection_confidence=0.5) as fd:
        image = cv2.imread(sys.argv[1])
        results = fd.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
        for detection in results.detections or []:
            print("Nose tip:")
            print(
                mp_face_detection.get_key_point(detection, mp_face_detection.FaceKeyPoint.NOSE_TIP)
            )
            mp_drawing.draw_detection(image, detection)
            ih, iw, ic = image.shape
            box = detection.location_data.relative_bounding_box
            print(int(box.xmin * iw), int(box.ymin * ih), int(box.width * iw), int(box.height * ih))
            print(detection.label_id[0], f"{int(detection.score[0] * 100)}%")
        print(int(image.sum()))
