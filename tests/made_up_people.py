import numpy as np

from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.location_data_pb2 import LocationData
from posemill.records import OtherPeople, PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter
from posemill.skeletons import get_skeleton

# Where the body points of a person who stands in the middle are, as shares of width and height.
_BODY = {
    "nose": (0.5, 0.2),
    "left_eye": (0.53, 0.18), "right_eye": (0.47, 0.18),
    "left_ear": (0.56, 0.2), "right_ear": (0.44, 0.2),
    "mouth_left": (0.52, 0.24), "mouth_right": (0.48, 0.24),
    "left_shoulder": (0.65, 0.35), "right_shoulder": (0.35, 0.35),
    "left_elbow": (0.7, 0.5), "right_elbow": (0.3, 0.5),
    "left_wrist": (0.65, 0.6), "right_wrist": (0.35, 0.6),
    "left_hip": (0.6, 0.7), "right_hip": (0.4, 0.7),
    "left_knee": (0.6, 0.82), "right_knee": (0.4, 0.82),
    "left_ankle": (0.6, 0.94), "right_ankle": (0.4, 0.94),
    "neck": (0.5, 0.35),
}  # fmt: skip


def stand(skeleton_name="holistic-543"):
    """Return `(keypoints, 3)` of one standing person, hands open, in shares of width and height."""
    skeleton = get_skeleton(skeleton_name)
    points = np.zeros((skeleton.num_points, 3), np.float32)
    for index, name in enumerate(skeleton.point_names):
        side = "left" if "left" in name else "right"
        if "_hand_" in name:
            start = skeleton.part(f"{side}_hand").start
            number = index - start
            finger, joint = divmod(number - 1, 4)
            x, y = _BODY[f"{side}_wrist"]
            if number:
                x += 0.02 * (finger - 2) * (1 if side == "left" else -1)
                y += 0.03 + 0.015 * joint
        elif name.startswith("face_"):
            angle = index * 2.4
            x, y = 0.5 + 0.06 * np.cos(angle), 0.2 + 0.08 * np.sin(angle)
        else:
            known = next((key for key in _BODY if name.startswith(key)), None)
            x, y = (
                _BODY[known]
                if known
                else _BODY[
                    f"{side}_ankle"
                    if "foot" in name or "heel" in name or "toe" in name
                    else f"{side}_wrist"
                ]
            )
        points[index, :2] = x, y
    return points


def make_person(
    num_frames=10,
    *,
    skeleton_name="holistic-543",
    missing=(),
    step=0.002,
    size_wh=(320, 240),
    **fields,
):
    """Return a clip of a person who sways by `step` a frame, without the missing parts."""
    skeleton = get_skeleton(skeleton_name)
    sway = step * np.arange(num_frames, dtype=np.float32)
    points = np.repeat(stand(skeleton_name)[None], num_frames, 0)
    points[..., 0] += sway[:, None]
    for name in missing:
        part = skeleton.part(name)
        points[:, part.start : part.stop] = np.nan
    scores = np.where(np.isnan(points[..., 0]), 0, 1).astype(np.float32)
    sizes = np.tile(np.array(size_wh, np.int32), (num_frames, 1))
    fields.setdefault("clip_id", "someone")
    return PoseClip(points, scores, sizes, skeleton_name=skeleton_name, **fields)


def make_detection(xmin=0.25, ymin=0.3):
    """Return a face of two points, as the solution finds them."""
    keypoint = LocationData.RelativeKeypoint
    location = LocationData(
        format=LocationData.RELATIVE_BOUNDING_BOX,
        relative_bounding_box=LocationData.RelativeBoundingBox(
            xmin=xmin, ymin=ymin, width=0.1, height=0.2
        ),
        relative_keypoints=[keypoint(x=0.3, y=0.4), keypoint(x=0.5, y=0.6)],
    )
    return Detection(label_id=[0], score=[0.721778], location_data=location)


def write_run(folder, *clips, failures=(), **manifest):
    """Write a finished run of clips of one skeleton, holistic-543 where there are none."""
    skeleton_name = clips[0].skeleton_name if clips else "holistic-543"
    with RunWriter(folder, Manifest(skeleton_name, **manifest)) as writer:
        for clip in clips:
            writer.add(clip)
        for failure in failures:
            writer.add_failure(failure)
    return folder


def make_crowd(frames, **fields):
    """Return a clip of OpenPose; the first person of each frame, of scores 0.9, stands for it."""
    nobody = np.full((18, 3), np.nan, np.float32)
    points = np.stack([people[0] if people else nobody for people in frames])
    rest = [person for people in frames for person in people[1:]]
    others = OtherPeople(
        np.array([max(len(people) - 1, 0) for people in frames], np.int64),
        np.stack(rest) if rest else np.zeros((0, 18, 3), np.float32),
        np.full((len(rest), 18), 0.5, np.float32),
    )
    scores = np.where(np.isnan(points[..., 0]), 0, np.float32(0.9)).astype(np.float32)
    sizes_wh = np.tile(np.array([200, 100], np.int32), (len(frames), 1))
    return PoseClip(points, scores, sizes_wh, "openpose-18", others=others, **fields)
