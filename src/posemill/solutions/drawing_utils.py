"""`mp.solutions.drawing_utils`: landmarks on pictures, pixel for pixel as the original draws them.

Colours are in the order of OpenCV's pictures: blue, green, red.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import cv2
import numpy as np

from posemill.errors import MissingExtraError
from posemill.framework.formats.detection_pb2 import Detection
from posemill.framework.formats.landmark_pb2 import Landmark, LandmarkList
from posemill.framework.formats.location_data_pb2 import LocationData
from posemill.records import FloatArray, Frame

Color = tuple[int, int, int]
Connection = tuple[int, int]
_Key = TypeVar("_Key")

WHITE_COLOR = (224, 224, 224)
BLACK_COLOR = (0, 0, 0)
RED_COLOR = (0, 0, 255)
GREEN_COLOR = (0, 128, 0)
BLUE_COLOR = (255, 0, 0)
_PRESENCE_THRESHOLD = 0.5
_VISIBILITY_THRESHOLD = 0.5
_BGR_CHANNELS = 3


@dataclass
class DrawingSpec:
    """How points or lines are drawn.

    Args:
        color: Blue, green, red, 0 to 255.
        thickness: Of lines in pixels; of circles too, and below 0 they are filled.
        circle_radius: Of points, in pixels.
    """

    color: Color = WHITE_COLOR
    thickness: int = 2
    circle_radius: int = 2


_POINTS, _LINES = DrawingSpec(color=RED_COLOR), DrawingSpec()
_PLOTTED_POINTS = DrawingSpec(color=RED_COLOR, thickness=5)
_PLOTTED_LINES = DrawingSpec(color=BLACK_COLOR, thickness=5)


def draw_landmarks(  # noqa: PLR0917  the original's order
    image: Frame,
    landmark_list: LandmarkList | None,
    connections: Iterable[Connection] | None = None,
    landmark_drawing_spec: DrawingSpec | Mapping[int, DrawingSpec] | None = _POINTS,
    connection_drawing_spec: DrawingSpec | Mapping[Connection, DrawingSpec] = _LINES,
    is_drawing_landmarks: bool = True,
) -> None:
    """Draw landmarks into a picture, in place; nothing where there are none.

    Args:
        image: `(height, width, 3)` uint8, blue, green, red.
        landmark_list: Such as `results.pose_landmarks`.
        connections: Pairs of points to join, where both are seen.
        landmark_drawing_spec: For all points, or for each by its index; None: no points.
        connection_drawing_spec: For all lines, or for each by its pair.
        is_drawing_landmarks: False: no points.
    """
    if not landmark_list:
        return
    _expect_bgr(image)
    height, width = image.shape[:2]
    places = {
        index: place
        for index, point in enumerate(landmark_list.landmark)
        if _is_seen(point)
        and (place := _normalized_to_pixel_coordinates(point.x, point.y, width, height))
    }
    for start, end in _checked(connections, len(landmark_list.landmark)):
        if start in places and end in places:
            spec = _of(connection_drawing_spec, (start, end))
            cv2.line(image, places[start], places[end], spec.color, spec.thickness)
    if not is_drawing_landmarks or not landmark_drawing_spec:
        return
    for index, place in places.items():
        spec = _of(landmark_drawing_spec, index)
        border = max(spec.circle_radius + 1, int(spec.circle_radius * 1.2))
        cv2.circle(image, place, border, WHITE_COLOR, spec.thickness)
        cv2.circle(image, place, spec.circle_radius, spec.color, spec.thickness)


def plot_landmarks(  # noqa: PLR0917  the original's order
    landmark_list: LandmarkList | None,
    connections: Iterable[Connection] | None = None,
    landmark_drawing_spec: DrawingSpec = _PLOTTED_POINTS,
    connection_drawing_spec: DrawingSpec = _PLOTTED_LINES,
    elevation: int = 10,
    azimuth: int = 10,
) -> None:
    """Show landmarks in space, with matplotlib.

    Args:
        landmark_list: Such as `results.pose_world_landmarks`.
        connections: Pairs of points to join, where both are seen.
        landmark_drawing_spec: Colour and thickness of the points.
        connection_drawing_spec: Colour and thickness of the lines.
        elevation: From where they are looked at, in degrees.
        azimuth: Likewise, around the vertical axis.
    """
    if not landmark_list:
        return
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "plot_landmarks needs {name!r}; run: pip install matplotlib", name=error.name
        ) from error
    pyplot.figure(figsize=(10, 10))
    axes: Any = pyplot.axes(projection="3d")
    axes.view_init(elev=elevation, azim=azimuth)
    places = {
        index: (-point.z, point.x, -point.y)
        for index, point in enumerate(landmark_list.landmark)
        if _is_seen(point)
    }
    for place in places.values():
        axes.scatter3D(
            *([value] for value in place),
            color=_rgb(landmark_drawing_spec),
            linewidth=landmark_drawing_spec.thickness,
        )
    for start, end in _checked(connections, len(landmark_list.landmark)):
        if start in places and end in places:
            axes.plot3D(
                *zip(places[start], places[end], strict=True),
                color=_rgb(connection_drawing_spec),
                linewidth=connection_drawing_spec.thickness,
            )
    pyplot.show()


def draw_detection(
    image: Frame,
    detection: Detection,
    keypoint_drawing_spec: DrawingSpec = _POINTS,
    bbox_drawing_spec: DrawingSpec = _LINES,
) -> None:
    """Draw the box and the points of a detection into a picture, in place.

    Args:
        image: `(height, width, 3)` uint8, blue, green, red.
        detection: Such as `results.detections[0]` of face detection.
        keypoint_drawing_spec: For the points.
        bbox_drawing_spec: For the box.

    Raises:
        ValueError: A point or a corner lies outside of the picture, where stock fails, too.
    """
    if not detection.location_data:
        return
    _expect_bgr(image)
    location = detection.location_data
    if location.format != LocationData.RELATIVE_BOUNDING_BOX:
        raise ValueError(
            "detection: expected a location of the format RELATIVE_BOUNDING_BOX, got "
            f"{location.format}; only detections of mp.solutions.face_detection can be drawn"
        )
    height, width = image.shape[:2]

    def pixel_of(x: float, y: float) -> tuple[int, int]:
        place = _normalized_to_pixel_coordinates(x, y, width, height)
        if place is None:
            raise ValueError(
                f"detection: expected points and corners inside of the picture (0 to 1), got "
                f"({x:.3f}, {y:.3f}); leave out detections that reach beyond it, or cut their box"
            )
        return place

    for point in location.relative_keypoints:
        cv2.circle(
            image,
            pixel_of(point.x, point.y),
            keypoint_drawing_spec.circle_radius,
            keypoint_drawing_spec.color,
            keypoint_drawing_spec.thickness,
        )
    if not location.HasField("relative_bounding_box"):
        return
    box = location.relative_bounding_box
    cv2.rectangle(
        image,
        pixel_of(box.xmin, box.ymin),
        pixel_of(box.xmin + box.width, box.ymin + box.height),
        bbox_drawing_spec.color,
        bbox_drawing_spec.thickness,
    )


def draw_axis(  # noqa: PLR0917  the original's order
    image: Frame,
    rotation: FloatArray,
    translation: FloatArray,
    focal_length: tuple[float, float] = (1.0, 1.0),
    principal_point: tuple[float, float] = (0.0, 0.0),
    axis_length: float = 0.1,
    axis_drawing_spec: DrawingSpec = _LINES,
) -> None:
    """Draw the axes of something in space into a picture: x red, y green, z blue. In place.

    Args:
        image: `(height, width, 3)` uint8, blue, green, red.
        rotation: `(3, 3)`, from its own axes to those of the camera.
        translation: `(3,)`, where it is for the camera.
        focal_length: Of the camera, in halves of the picture's width and height.
        principal_point: Of the camera, from the middle of the picture, in the same units.
        axis_length: Of what is drawn.
        axis_drawing_spec: Its thickness counts.
    """
    _expect_bgr(image)
    height, width = image.shape[:2]
    ends = np.concatenate([np.zeros((1, 3)), np.eye(3)]).astype(np.float32)
    x, y, z = (np.matmul(rotation, axis_length * ends.T).T + translation).T
    depth = z + 1e-5
    across = np.clip(-focal_length[0] * x / depth + principal_point[0], -1.0, 1.0)
    up = np.clip(-focal_length[1] * y / depth + principal_point[1], -1.0, 1.0)
    columns = ((1 + across) * 0.5 * width).astype(np.int32).tolist()
    rows = ((1 - up) * 0.5 * height).astype(np.int32).tolist()
    origin, *tips = zip(columns, rows, strict=True)
    for tip, color in zip(tips, (RED_COLOR, GREEN_COLOR, BLUE_COLOR), strict=True):
        cv2.arrowedLine(image, origin, tip, color, axis_drawing_spec.thickness)


def _expect_bgr(image: Frame) -> None:
    if image.ndim != 3 or image.shape[2] != _BGR_CHANNELS:
        raise ValueError(
            f"image: expected three channels (blue, green, red), got shape {image.shape}"
        )


def _normalized_to_pixel_coordinates(
    normalized_x: float, normalized_y: float, image_width: int, image_height: int
) -> tuple[int, int] | None:
    """Return the pixel of a point, None if it lies outside of the picture."""
    for value in (normalized_x, normalized_y):
        if not (0 < value < 1 or math.isclose(value, 0) or math.isclose(value, 1)):
            return None
    return (
        min(math.floor(normalized_x * image_width), image_width - 1),
        min(math.floor(normalized_y * image_height), image_height - 1),
    )


def _is_seen(point: Landmark) -> bool:
    return not (
        (point.HasField("visibility") and point.visibility < _VISIBILITY_THRESHOLD)
        or (point.HasField("presence") and point.presence < _PRESENCE_THRESHOLD)
    )


def _checked(connections: Iterable[Connection] | None, num_landmarks: int) -> list[Connection]:
    found = list(connections or ())
    for start, end in found:
        if not (0 <= start < num_landmarks and 0 <= end < num_landmarks):
            raise ValueError(
                f"connections: expected points 0 to {num_landmarks - 1}, got a line from "
                f"{start} to {end}"
            )
    return found


def _of(spec: DrawingSpec | Mapping[_Key, DrawingSpec], key: _Key) -> DrawingSpec:
    return spec[key] if isinstance(spec, Mapping) else spec


def _rgb(spec: DrawingSpec) -> tuple[float, ...]:
    return tuple(value / 255 for value in reversed(spec.color))
