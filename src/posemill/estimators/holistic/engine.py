"""The Holistic engine: pose, hands and face of a batch of frames, stage by stage."""

from __future__ import annotations

from typing import Any, cast

from posemill.estimators import EngineInfo, EngineOption
from posemill.estimators.holistic.face import FaceFinder
from posemill.estimators.holistic.hands import CROPS, HandFinder
from posemill.estimators.holistic.parts import PartFinder
from posemill.estimators.holistic.state import HolisticState
from posemill.estimators.landmarks.body_finder import BODY_OPTIONS, BodyEngine, BodyFrame
from posemill.estimators.landmarks.crop_network import LANDMARK_NEEDS, REFINED_FACE

_SKELETONS = ("holistic-543", "holistic-143", "openpose-18", "coco-133")
_PARTS = ("pose,hands,face", "pose,hands", "pose,face", "pose")


class HolisticEstimator(BodyEngine):
    """The legacy Holistic graph (0.10.21), in batches.

    The body is always looked for: hands and face are found by its points.
    """

    name = "holistic"
    state_class = HolisticState
    info = EngineInfo(
        "body, face and hands of one person or several: MediaPipe Holistic 0.10.21",
        _SKELETONS,
        **LANDMARK_NEEDS,
        options=(
            *BODY_OPTIONS,
            EngineOption(
                "refine_face_landmarks",
                bool,
                False,
                "Look at lips, eyes and irises a second time: 478 points of the face.",
                skeletons=("holistic-553", *_SKELETONS),
            ),
            EngineOption(
                "parts", str, _PARTS[0], "What is looked for; the rest costs no time.", _PARTS
            ),
            EngineOption(
                "hand_crop",
                str,
                "stock",
                "Where a hand is looked for: as in MediaPipe, or by a rule fitted to hands that "
                "do not face the camera.",
                choices=CROPS,
            ),
        ),
    )

    def __init__(
        self, *, device: str = "cpu", threads: int = 1, with_masks: bool = False, **options: Any
    ) -> None:
        super().__init__(device=device, threads=threads, with_masks=with_masks, **options)
        parts = self.options["parts"].split(",")
        self._finders: list[PartFinder] = []
        if "hands" in parts:
            network = (
                "hand_landmark_full_with_side" if self.options["world"] else "hand_landmark_full"
            )
            recrop, landmarks = self._open("hand_recrop"), self._open(network)
            self._finders.append(
                HandFinder(
                    recrop,
                    landmarks,
                    crop=self.options["hand_crop"],
                    keeps_world=self.options["world"],
                )
            )
        if "face" in parts:
            is_refined = self.options["refine_face_landmarks"]
            detector = self._open("face_detection_short_range", repeats_border=False)
            landmarks = self._open(REFINED_FACE if is_refined else "face_landmark", stretches=True)
            self._finders.append(FaceFinder(detector, landmarks))

    def _find_parts(self, people: list[BodyFrame]) -> None:
        for finder in self._finders:
            finder.begin(people)
        for finder in self._finders:
            finder.locate()
        for finder in self._finders:
            finder.cut()
        for finder in self._finders:
            finder.read()
        for person in people:
            if person.state is not None:
                cast(HolisticState, person.state).remember(person.parts)
