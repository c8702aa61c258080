"""Which of the 468 (refined: 478) points of a face are joined by lines.

Left and right are the subject's own. All are sets of pairs (start, end), as in the original.
"""

from __future__ import annotations

from itertools import pairwise

from posemill.skeletons.layouts import FACE_468_CONTOURS, IRISES, mirror_of_face

__all__ = [
    "FACEMESH_CONTOURS",
    "FACEMESH_FACE_OVAL",
    "FACEMESH_IRISES",
    "FACEMESH_LEFT_EYE",
    "FACEMESH_LEFT_EYEBROW",
    "FACEMESH_LEFT_IRIS",
    "FACEMESH_LIPS",
    "FACEMESH_NOSE",
    "FACEMESH_RIGHT_EYE",
    "FACEMESH_RIGHT_EYEBROW",
    "FACEMESH_RIGHT_IRIS",
    "FACEMESH_TESSELATION",
]

Connections = frozenset[tuple[int, int]]

FACEMESH_NUM_LANDMARKS = 468
FACEMESH_NUM_LANDMARKS_WITH_IRISES = 478


def _joined(*chains: tuple[int, ...]) -> Connections:
    return frozenset(pair for chain in chains for pair in pairwise(chain))


_OVAL, *_LIPS = FACE_468_CONTOURS[:5]
_LEFT, _RIGHT = FACE_468_CONTOURS[5:9], FACE_468_CONTOURS[9:]
FACEMESH_LIPS = _joined(*_LIPS)
FACEMESH_LEFT_EYE, FACEMESH_LEFT_EYEBROW = _joined(*_LEFT[:2]), _joined(*_LEFT[2:])
FACEMESH_RIGHT_EYE, FACEMESH_RIGHT_EYEBROW = _joined(*_RIGHT[:2]), _joined(*_RIGHT[2:])
FACEMESH_RIGHT_IRIS, FACEMESH_LEFT_IRIS = (_joined((*i[1:], i[1])) for i in IRISES)
FACEMESH_FACE_OVAL = _joined(_OVAL)
FACEMESH_NOSE = _joined(
    (168, 6, 197, 195, 5, 4, 1, 19, 94, 2), (4, 45, 220, 115, 48, 64, 98, 97, 2),
    (2, 326, 327, 294, 278, 344, 440, 275, 4),
)  # fmt: skip
FACEMESH_IRISES = FACEMESH_LEFT_IRIS.union(FACEMESH_RIGHT_IRIS)
FACEMESH_CONTOURS = frozenset().union(
    FACEMESH_LIPS, FACEMESH_LEFT_EYE, FACEMESH_LEFT_EYEBROW, FACEMESH_RIGHT_EYE,
    FACEMESH_RIGHT_EYEBROW, FACEMESH_FACE_OVAL,
)  # fmt: skip

# The mesh of triangles. Inside of it every line belongs to two triangles and is there in both
# directions; these chains are the lines of the right half, and the left half is its mirror image
# but for `_ONE_SIDED`.
_RIGHT_HALF = """
    0 37 167 2 164 0 11 12 13 38 41 42 74 73 72 41 73 40 39 37 11 72 39 73; 1 4 5 51 45 44 19 1 44
    4 45 134 131 115 48 219 59 235 48 49 129 209 49 64 48 131 198 209 217 198 236 217 174 188 196
    197 195 51 4; 2 94 141 125 44 220 218 219 235 240 99 98 97 99 60 75 59 166 218 237 239 238 241
    242 238 20 60 166 219 115 218 79 20 99 242 141 97 165 167 164 37 72 38 12 72; 3 51 134 198; 5
    195 3 196 174 114 128 121 120 119 118 117 111 116 123 117 50 101 100 120 101 118 50 123 111
    143 156 139 127 34 139 162 71 70 63 68 71 63 53 52 63 46 53 223 222 221 190 189 193 168 122
    188 245 244 243 190 173 56 28 27 29 30 160 29 223 224 225 247 246; 9 108 151 9 8 55 65 66 69
    67 104 103; 10 151 109 108 107 69 104 105 69 108 67; 16 15 14 86 85 84 83 18 17 16 85 17 83
    181 180 179 178 86 87; 17 84 180 90 89 88 96 95; 19 94; 22 23 24 110 144 24 228 229 230 231
    232 233 244 193 245 233 128 188 114 47 100 121 47 126 129 142 126 100 142 203 206 205 207 212
    214 210 211 204 202 210 204 194 201 200 199 208 201 182 181 91 90 96 89 179 88; 24 229 118 230
    120 231 26 22 145 23 144; 25 31 111 35 113 124 143 116 137 132 177 147 123 137 177 215 213 192
    187 205 216 212 202 214 207 216 206 165 203 129 102 64 98 129 64 235 75 240 98 165 92 40 74 41
    81 42 80 183 184 185 186 212 57 61 76 77 90 181 84; 28 157 56 190 133 112 155 26 112 232 128
    47 217 126 209 131 49 102; 29 224 53 225 113 46 70 139 71 21 68 54 104 68; 31 117 228 110 163;
    33 25 7 110 25 130 226 247 130 33 247 113 226 111; 35 124 156 70; 39 92 186 216 92 206 36 100;
    43 57 185 74 184 76 62 77 91 106 43 61 146 91 43 146 77 96 78 62 96; 44 237 241 239 79 166 20
    242 97 167 39 165; 45 220 237 125 19 141 241 125; 46 124; 51 236 196 122 193 55 9 107 66 52 65
    107 55 189 221 65 222 52 105 66; 52 223 27 159 28 158; 55 221 56; 60 240 64; 79 237; 81 38 82;
    85 15 86 179 85 180 89; 91 182 194 211 170 169 150 135 136 138 135 169 210; 97 2 141; 98 203
    36 101 119 230 23 229 117; 101 205 50 187 207; 104 63 105; 106 182 83 201 32 140 148 171 175
    152; 112 233; 114 217; 115 220 134 236 174; 116 227 234 34 143 227 137 93 227 34 156 46 225 30
    161; 120 232 121; 128 245 122 6 168 8 193; 131 220; 133 243 189 244 112 243; 142 36 205; 143
    35 226 31 228 25 226; 146 76 183 191 62 183 42 184 61 185 40 186 57 202 43 204 106 194 32 171
    199 175 148; 147 187 213 147 215 172 138 192 214 187 123 177 58 215 138 213; 149 170 176 140
    170 150; 153 22 154 26 232; 160 27 222 28 221; 192 135 214 169 211 140 171 208 200 18 201; 196
    6 197 3 236; 208 32 211; 224 30 247; 230 22 231
"""
_ONE_SIDED = ((75, 166), (79, 238), (161, 247), (250, 459), (260, 466), (289, 290))


def _tesselation() -> Connections:
    mirror = mirror_of_face(FACEMESH_NUM_LANDMARKS)
    lines = set(_ONE_SIDED)
    for chain in _RIGHT_HALF.split(";"):
        for start, end in pairwise(map(int, chain.split())):
            lines |= {(start, end), (mirror[start], mirror[end])}
    # The rims of the mesh belong to one triangle: the oval, the mouth and the eyes, each run
    # through as the triangles beside it are.
    rims = {pair[::-1] for pair in _joined(_OVAL, _LIPS[2], _LEFT[1], _RIGHT[0])}
    rims |= _joined(_LIPS[3], _LEFT[0], _RIGHT[1])
    return frozenset(lines | {pair[::-1] for pair in lines} | rims)


FACEMESH_TESSELATION = _tesselation()
