"""Boxes and points of all people by one network: RTMO and YOLO-pose files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.estimators.people import drop_doubles
from posemill.estimators.runtimes.sessions import Session
from posemill.estimators.wholebody.networks import OPEN_SIDE, PictureNetwork, pixel_tables
from posemill.estimators.wholebody.pose import expect_known
from posemill.messages import Message
from posemill.records import FloatArray, Frame

# Least score of a person, and the overlap that two may have: those of rtmlib and of Ultralytics.
_LIMITS = {"rtmo": (0.7, 0.45), "yolo": (0.25, 0.7)}
# Below it ONNX Runtime's sigmoid is 0, and OpenVINO's is not: there is no such point.
_LEAST_SCORE = 2**-25
_BOX_COLUMNS, _CHOSEN_COLUMNS = 5, 6
_MAX_CHOSEN = 1000  # people that a file with the choice inside gives


def kind_of(session: Session) -> str | None:
    """Return `rtmo` or `yolo` by what a network gives; None for one that needs people's boxes."""
    ranks = [len(output.shape) for output in session.outputs]
    if sorted(ranks) == [3, 4]:
        return "rtmo"
    return "yolo" if ranks == [3] else None


class OneStageNetwork:
    """A network in a user's file that finds people and their points; `num_points` of each.

    Args:
        session: The network, as `open_file` gives it.
        path: Its file.
        kind: As `kind_of` says.
        side: Of the square it sees, where the file leaves that open; None: 640.
        min_score: Least score of a person; None: 0.7 of RTMO, 0.25 of YOLO-pose.
        most_overlap: Intersection over union that two people may have; None: 0.45 of RTMO, 0.7 of
            YOLO-pose. Not used where the file chooses itself.
        batch: Most pictures in one call.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        *,
        kind: str,
        side: int | None,
        min_score: float | None,
        most_overlap: float | None,
        batch: int,
    ) -> None:
        self._is_rtmo = kind == "rtmo"
        # RTMO wants bytes as they are, blue first; YOLO wants numbers from 0 to 1, red first.
        self._network = PictureNetwork(
            session,
            path,
            "pose",
            tables=pixel_tables() if self._is_rtmo else pixel_tables(stds=(255, 255, 255)),
            colours="bgr" if self._is_rtmo else "rgb",
            batch=batch,
            open_side=side or OPEN_SIDE,
        )
        self.num_points = self._count_points()
        expect_known(path, self.num_points)
        usual_score, usual_overlap = _LIMITS[kind]
        self._min_score = usual_score if min_score is None else min_score
        self._most_overlap = usual_overlap if most_overlap is None else most_overlap
        width, height = self._network.size_wh
        self.sha256 = self._network.sha256
        self.settled = {
            "pose": self._network.path.name,
            "pose_kind": kind,
            "pose_size": f"{width}x{height}",
            "min_score": self._min_score,
            "most_overlap": self._most_overlap,
        }

    def find(self, frames: Sequence[Frame]) -> list[tuple[FloatArray, FloatArray]]:
        """Return points `(people, points, 2)` as shares of the picture, and scores, of each."""
        looks = self._network.look_at(frames, is_centred=not self._is_rtmo)
        found = []
        for frame, (scale, corner, outputs) in zip(frames, looks, strict=True):
            points, scores = self._people_of(outputs, scale)
            points = (points - corner) / np.float32(scale) / np.array(frame.shape[1::-1])
            scores = np.clip(np.nan_to_num(scores), 0, 1).astype(np.float32)
            scores[~np.isfinite(points).all(axis=2) | (scores < _LEAST_SCORE)] = 0
            points[scores == 0] = np.nan
            is_somebody = (scores > 0).any(axis=1)
            found.append((points[is_somebody].astype(np.float32), scores[is_somebody]))
        return found

    def _people_of(self, outputs: list[FloatArray], scale: float) -> tuple[FloatArray, FloatArray]:
        """Return points `(people, points, 2)` in pixels of the input, and their scores."""
        boxes, totals, points, has_chosen = self._read(outputs)
        kept = np.nonzero(totals > self._min_score)[0]
        if not has_chosen:
            chosen = drop_doubles(
                boxes[kept] / np.float32(scale),  # in pixels of the frame, for the rim
                totals[kept],
                most_overlap=self._most_overlap,
                rim=int(self._is_rtmo),
            )
            kept = kept[chosen]
        return points[kept, :, :2].astype(np.float32), points[kept, :, 2]

    def _read(self, outputs: list[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray, bool]:
        """Return boxes, scores, points `(people, points, 3)`, and whether doubles are gone."""
        if self._is_rtmo:
            rows, points = sorted(outputs, key=lambda output: output.ndim)
            return rows[:, :4], rows[:, 4], points, False
        rows = outputs[0]
        if rows.shape[1] == _CHOSEN_COLUMNS + 3 * self.num_points:
            points = rows[:, _CHOSEN_COLUMNS:].reshape(len(rows), -1, 3)
            return rows[:, :4], rows[:, 4], points, True
        columns = rows.T
        middles, halves = columns[:, :2], columns[:, 2:4] / 2
        boxes = np.concatenate([middles - halves, middles + halves], axis=1)
        points = columns[:, _BOX_COLUMNS:].reshape(len(columns), -1, 3)
        return boxes, columns[:, 4], points, False

    def _count_points(self) -> int:
        shapes = sorted(self._network.output_shapes, key=len)
        first = shapes[0]
        if self._is_rtmo:
            _, people, num_points, values = shapes[1]
            if first[1:] == (people, _BOX_COLUMNS) and values == 3:
                return int(num_points)
        elif first[1] % 3 == _BOX_COLUMNS % 3 and first[1] < first[2]:
            return int(first[1] - _BOX_COLUMNS) // 3  # what is said of every cell, in columns
        elif first[2] % 3 == 0 and first[2] > _CHOSEN_COLUMNS and first[1] <= _MAX_CHOSEN:
            return int(first[2] - _CHOSEN_COLUMNS) // 3
        raise self._network.refuse(
            Message(
                "RTMO's boxes (batch, people, 5) and points (batch, people, points, 3), or "
                "YOLO-pose's (batch, 5 + 3 x points, cells) or (batch, people, 6 + 3 x points)"
            )
        )
