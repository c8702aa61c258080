"""What the coordinator decides when workers die, without any worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from posemill.config import ExtractConfig
from posemill.errors import DeviceError, RunError
from posemill.executors import Died, Message
from posemill.jobs.extract.coordinator import Coordinator
from posemill.jobs.extract.ledger import Ledger
from posemill.jobs.extract.log import RunLog
from posemill.jobs.extract.messages import DECODING, ESTIMATING, STARTING, Fatal
from posemill.jobs.extract.plan import plan_units
from posemill.jobs.extract.signals import StopSignals
from posemill.records import Clip


class ScriptedExecutor:
    """Plays events that a script makes from each task it is given."""

    def __init__(self, script):
        self._script = script

    def run(self, make_function, next_task):
        while (task := next_task()) is not None:
            events = self._script(task)
            if events is None:
                return
            yield from events

    def ask_to_stop(self):
        pass

    def places(self):
        return []


@pytest.fixture
def play(tmp_path):
    """Run a script over clips; return the ledger's view of the first unit afterwards."""

    def run(clips, script):
        config = ExtractConfig(Path("source"), tmp_path, task_frames=512)
        ledger, log = Ledger(tmp_path), RunLog(tmp_path)
        try:
            ledger.add_plan(clips, plan_units(clips, config))
            coordinator = Coordinator(tmp_path, ledger, clips, config=config, log=log)
            coordinator.plan(1)
            coordinator.run(ScriptedExecutor(script), None, StopSignals())
            return ledger.load_units([1], clips)[0]
        finally:
            ledger.close()
            log.close()

    return run


FRAMES = [Clip("a", "a", "frames", num_frames=600)]
VIDEO = [Clip("a", "a.mp4", "video", num_frames=600)]


def dying(places):
    """A script in which the worker dies at one place after the other, and then no more."""
    places = iter(places)
    tasks = []

    def script(task):
        tasks.append(task)
        place = next(places, None)
        return None if place is None else [Died(task, place, "killed by SIGSEGV", 0)]

    script.tasks = tasks
    return script


@pytest.mark.parametrize("phase", [DECODING, ESTIMATING])
def test_a_frame_is_given_up_at_its_third_crash_and_not_before(play, phase):
    script = dying([(0, 7, phase, 0)] * 3)
    unit = play(FRAMES, script)
    assert unit.skip == {7: "killed by SIGSEGV, 3 times, at this frame"}
    assert unit.give_up is None
    assert all(not task.units[0].skip for task in script.tasks[:3])
    assert [task.piece_frames for task in script.tasks] == [512, 64, 8, 512]
    assert [task.is_careful for task in script.tasks] == [False, True, True, False]
    assert len({task.name for task in script.tasks}) == 4


def test_a_video_that_its_decoder_dies_of_is_given_up_from_there(play):
    unit = play(VIDEO, dying([(0, 7, DECODING, 0)] * 3))
    assert unit.give_up == (7, "killed by SIGSEGV, 3 times, at this frame")
    assert unit.skip == {}


def test_crashes_at_ever_other_frames_end_too(play):
    unit = play(FRAMES, dying([(0, number, ESTIMATING, 0) for number in range(10)]))
    assert unit.give_up is not None
    assert unit.give_up[0] == 0
    assert "workers died 10 times, at different frames" in unit.give_up[1]


def test_crashes_outside_of_frames_blame_none(play):
    unit = play(FRAMES, dying([(-1, -1, STARTING, 0)] * 5))
    assert unit.skip == {}
    assert unit.give_up is None


def test_workers_that_never_start_end_the_run(play):
    with pytest.raises(RunError, match=r"workers die before they can start \(exit code 3\); see"):
        play(FRAMES, lambda _: [Died(None, (0, 0, 0, 0), "exit code 3", 0)] * 10)


def test_what_no_worker_can_do_is_raised_as_what_it_is(play):
    with pytest.raises(DeviceError, match="no cuda:3 here"):
        play(FRAMES, lambda task: [Message(task, Fatal("DeviceError", "no cuda:3 here"))])
