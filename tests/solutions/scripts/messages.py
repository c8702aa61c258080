# ruff: noqa
import copy
import itertools
import pickle
import sys

import cv2
import mediapipe as mp
from google.protobuf.json_format import MessageToDict
from mediapipe.framework.formats import landmark_pb2

image = cv2.imread(sys.argv[1])
mp_holistic = mp.solutions.holistic
with mp_holistic.Holistic(static_image_mode=True) as holistic:
    results = holistic.process(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
pose = results.pose_landmarks
print(sorted(MessageToDict(pose)["landmark"][0]))
print(sorted(MessageToDict(results.face_landmarks)["landmark"][0]))
print(len(pose.SerializeToString()), results.face_landmarks.ByteSize(), pose.IsInitialized())
back = landmark_pb2.NormalizedLandmarkList()
back.ParseFromString(pose.SerializeToString())
print(
    back == pose, landmark_pb2.NormalizedLandmarkList.FromString(pose.SerializeToString()) == pose
)
first = landmark_pb2.NormalizedLandmarkList()
first.landmark.extend(
    [
        landmark_pb2.NormalizedLandmark(x=p.x, y=p.y, z=p.z)
        for p in itertools.islice(pose.landmark, 3)
    ]
)
print(len(first.landmark), first.landmark[0].HasField("visibility"))
print([field.name for field, _ in pose.landmark[0].ListFields()], pose.DESCRIPTOR.full_name)
copied = landmark_pb2.NormalizedLandmarkList()
copied.CopyFrom(pose)
copied.landmark[0].x = 0.5
print(copied != pose, copied.landmark[0].x, pickle.loads(pickle.dumps(pose)) == pose)
part = copy.deepcopy(pose)
del part.landmark[5:]
print(len(part.landmark), part.landmark[-1] == pose.landmark[4], len(pose.landmark[::2]))
world = landmark_pb2.LandmarkList()
world.landmark.add(x=1.0)
print(str(world).split(), [line.split(":")[0] for line in str(pose.landmark[0]).splitlines()])
pose.landmark.pop()
pose.landmark.sort(key=lambda p: p.x)
pose.landmark.insert(0, landmark_pb2.NormalizedLandmark(x=0.25))
print(len(pose.landmark), pose.landmark[0])
