"""What every engine must do."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from posemill.errors import ConfigError, PosemillError
from posemill.estimators import EngineInfo, Estimator, engine_info, open_estimator
from posemill.records import Frame, Keypoints
from posemill.skeletons import Skeleton, get_skeleton, point_map


def same(one: Keypoints, other: Keypoints, rows: Sequence[int]) -> None:
    """Raise if the frames of one are not those rows of the other, to the bit."""
    np.testing.assert_array_equal(one.points, other.points[list(rows)])
    np.testing.assert_array_equal(one.scores, other.scores[list(rows)])
    np.testing.assert_array_equal(one.sizes_wh, other.sizes_wh[list(rows)])
    if one.others is not None and other.others is not None:
        parts = [other.others.of_frames(row, row + 1) for row in rows]
        np.testing.assert_array_equal(one.others.counts, other.others.counts[list(rows)])
        np.testing.assert_array_equal(one.others.points, np.concatenate([p.points for p in parts]))


class EngineContract:
    """Subclass it as `TestX` with the engine's name; `frames` may be given pictures of people.

    `same_bits` is False for an engine whose results depend on what else is in the batch.
    """

    name: str = ""
    options: Mapping[str, Any] = {}
    same_bits: bool = True

    @pytest.fixture
    def engine(self) -> Iterator[Estimator]:
        with closing(open_estimator(self.name, **self.options)) as opened:
            yield opened

    @pytest.fixture
    def info(self) -> EngineInfo:
        return engine_info(self.name, self.options)

    @pytest.fixture
    def frames(self) -> list[Frame]:
        """Pictures of different sizes: noise, a gradient, grey, black, one pixel."""
        rng = np.random.default_rng(0)
        ramp = np.linspace(0, 255, 96, dtype=np.uint8)
        return [
            rng.integers(0, 255, (72, 96, 3), np.uint8),
            np.broadcast_to(ramp[None, :, None], (64, 96, 3)).copy(),
            np.full((48, 48, 3), 128, np.uint8),
            np.zeros((40, 60, 3), np.uint8),
            np.full((1, 1, 3), 200, np.uint8),
        ]

    def test_the_declaration_is_true_of_the_class(self, info: EngineInfo) -> None:
        json.dumps(info.to_dict())
        assert info.summary
        assert info.people in ("one", "several")
        assert info.modes
        assert set(info.modes) <= {"image", "video"}
        assert "cpu" in info.devices or info.devices
        names = [option.name for option in info.options]
        assert len(set(names)) == len(names)
        for option in info.options:
            assert option.help
            option.check(option.default)

    def test_its_skeletons_are_known_and_can_be_made_of_the_first(self, info: EngineInfo) -> None:
        own, *others = info.skeleton_names
        for skeleton in info.skeletons:
            if isinstance(skeleton, Skeleton):
                assert get_skeleton(skeleton.name) == skeleton
        for name in others:
            assert len(point_map(own, name)) == get_skeleton(name).num_points

    def test_a_batch_gives_checked_keypoints_in_order(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        if "image" not in info.modes:
            pytest.skip("the engine has no image mode")
        found = engine.estimate(frames)
        num_points = get_skeleton(info.skeleton_names[0]).num_points
        assert found.points.shape == (len(frames), num_points, 3)
        assert found.scores.shape == (len(frames), num_points)
        assert found.points.dtype == found.scores.dtype == np.float32
        assert found.sizes_wh.tolist() == [[frame.shape[1], frame.shape[0]] for frame in frames]
        is_missing = np.isnan(found.points).any(axis=2)
        assert (np.isnan(found.points).all(axis=2) == is_missing).all()
        assert not np.isinf(found.points).any()
        assert (found.scores[is_missing] == 0).all()
        assert ((found.scores >= 0) & (found.scores <= 1)).all()
        assert (found.others is None) == (info.people == "one")
        if found.others is not None:
            assert len(found.others.counts) == len(frames)
            assert found.others.points.shape == (found.others.counts.sum(), num_points, 3)
            assert found.others.scores.shape == found.others.points.shape[:2]
            assert (found.others.scores > 0).any(axis=1).all(), "somebody without a point"
        assert len(engine.estimate([])) == 0

    def test_a_frame_gives_the_same_alone_in_a_batch_and_in_reverse(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        if "image" not in info.modes or not self.same_bits:
            pytest.skip("no image mode, or batches that are declared to differ")
        together = engine.estimate(frames)
        for row, frame in enumerate(frames):
            same(engine.estimate([frame]), together, [row])
        same(engine.estimate(frames[::-1]), together, range(len(frames))[::-1])

    def test_frames_are_not_changed(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        before = [frame.copy() for frame in frames]
        states = None if "image" in info.modes else [engine.new_state() for _ in frames]
        engine.estimate(frames, states)
        for one, other in zip(frames, before, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_state_goes_on_after_its_bytes_as_if_nothing_had_been(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        if "video" not in info.modes:
            pytest.skip("the engine has no video mode")
        uncut, cut = engine.new_state(), engine.new_state()
        clip = [frames[0]] * 3
        for frame in clip:
            engine.estimate([frame], [uncut])
            engine.estimate([frame], [cut])
        data = cut.to_bytes()
        assert isinstance(data, bytes)
        if not info.saves_states:
            assert data == b"", "bytes that are not a state"
            return
        kept = cut.copy()
        same(
            engine.estimate([frames[1]], [engine.load_state(data)]),
            engine.estimate([frames[1]], [uncut]),
            [0],
        )
        engine.estimate([frames[1]], [cut])
        assert kept.to_bytes() == data, "a copy must not change with the state it was made of"

    def test_a_clip_seen_again_from_its_start_gives_the_same(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        if "video" not in info.modes:
            pytest.skip("the engine has no video mode")
        first = engine.new_state()
        found = [engine.estimate([frame], [first]) for frame in (frames[0], frames[1])]
        del first
        again = engine.new_state()
        for frame, before in zip((frames[0], frames[1]), found, strict=True):
            same(engine.estimate([frame], [again]), before, [0])

    def test_clips_side_by_side_know_nothing_of_each_other(
        self, engine: Estimator, info: EngineInfo, frames: list[Frame]
    ) -> None:
        if "video" not in info.modes or not self.same_bits:
            pytest.skip("no video mode, or batches that are declared to differ")
        alone = engine.new_state()
        both = [engine.new_state(), engine.new_state()]
        for frame in frames[:3]:
            one = engine.estimate([frame], [alone])
            same(one, engine.estimate([frame, frames[0]], both), [0])

    def test_what_is_unknown_or_wrong_is_refused(self, info: EngineInfo) -> None:
        with pytest.raises(ConfigError, match="has no option 'no_such_option'"):
            open_estimator(self.name, no_such_option=1)
        with pytest.raises(PosemillError, match="device"):
            open_estimator(self.name, device="no-such-device:0")
        for option in info.options:
            if option.kind in (int, float, bool):
                wrong: dict[str, Any] = {option.name: "a word"}
                with pytest.raises(ConfigError, match=f"{option.name}: expected "):
                    open_estimator(self.name, **wrong)

    def test_its_identity_can_be_written_and_is_the_same_each_time(self, engine: Estimator) -> None:
        identity = engine.identity()
        assert identity
        assert json.loads(json.dumps(identity)) == identity == engine.identity()

    def test_the_class_takes_what_is_declared(self, info: EngineInfo, engine: Estimator) -> None:
        parameters = inspect.signature(type(engine)).parameters
        expected = {"device", "threads", *(option.name for option in info.options)}
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
            expected = {"device", "threads"}  # the others go through **options
        assert expected <= {*parameters}
