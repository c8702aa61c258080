# ruff: noqa
import sys
import mediapipe as mp

h = mp.solutions.holistic
P, H = h.PoseLandmark, h.HandLandmark
print(P.LEFT_SHOULDER + 1, P(12).name, P["NOSE"].value, len(P), len(H), [p.name for p in H])
print(
    [p.name.lower() for p in P],
    list(range(P.LEFT_HIP, P.LEFT_KNEE)),
    P.LEFT_HIP < P.RIGHT_HIP,
    f"{P.NOSE}",
    repr(P.NOSE),
)
print(
    len(h.POSE_CONNECTIONS),
    len(h.HAND_CONNECTIONS),
    len(h.FACEMESH_CONTOURS),
    len(h.FACEMESH_TESSELATION),
    type(h.FACEMESH_TESSELATION).__name__,
)
print(
    frozenset([(P.LEFT_SHOULDER, P.LEFT_ELBOW)]) <= h.POSE_CONNECTIONS,
    {P.NOSE: 1}[0],
    isinstance(P.NOSE, int),
)
d = mp.solutions.drawing_utils
print(
    d.DrawingSpec(),
    d.DrawingSpec(color=d.GREEN_COLOR),
    d.WHITE_COLOR,
    d.RED_COLOR,
    d.BLUE_COLOR,
    d.BLACK_COLOR,
)
s = mp.solutions.drawing_styles
for n in sorted(x for x in dir(s) if x.startswith("get_default")):
    v = getattr(s, n)()
    print(n, len(v) if isinstance(v, dict) or hasattr(v, "items") else v)
