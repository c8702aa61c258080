"""What the coordinator decides when workers die, without any worker."""

from pathlib import Path

import pytest

from posemill.config import ExtractConfig
from posemill.errors import DeviceError, PosemillError, RunError, StoppedError
from posemill.executors import Died, Finished, Output
from posemill.jobs.extract.coordinator import Coordinator, StopSignals
from posemill.jobs.extract.job import Fatal, Phase, part_of
from posemill.jobs.extract.opening import planned_clips
from posemill.jobs.extract.plan import plan_units
from posemill.jobs.extract.run import Extraction
from posemill.machine.live_files import LogFile
from posemill.records import Clip
from posemill.runs.events import Committed, Planned, UnitProgress
from posemill.runs.log import EventLog
from posemill.runs.queries import read_ledger


class ScriptedExecutor:
    """Plays events that a script makes from each task it is given, until it makes none."""

    def __init__(self, script):
        self._script = script
        self.tasks = []

    def run(self, make_function, next_task):
        while (task := next_task()) is not None:
            self.tasks.append(task)
            events = self._script(task, len(self.tasks))
            if events is None:
                return
            yield from events

    def ask_to_stop(self):
        pass

    def places(self):
        return []


@pytest.fixture
def play(tmp_path):
    """Run a script over clips; return what is then read of the first unit, and the tasks."""

    def run(clips, script, on_progress=lambda _: None):
        config = ExtractConfig(Path("source"), tmp_path, engine="fake", task_frames=512)
        events, log = EventLog(tmp_path), LogFile(tmp_path / "log")
        executor = ScriptedExecutor(script)
        try:
            units = tuple(plan_units(clips, config))
            events.record(Planned("run", planned_clips(clips), units))
            coordinator = Coordinator(
                Extraction(config), events, clips, log=log, on_progress=on_progress
            )
            coordinator.plan(1)
            coordinator.run(executor, None, StopSignals())
            return part_of(events.ledger.units([1], clips)[0]), executor.tasks
        finally:
            events.close()
            log.close()

    return run


@pytest.fixture
def count_rows(tmp_path):
    def count(table):
        with read_ledger(tmp_path) as database:
            return database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    return count


FRAMES = [Clip("a", "a", "frames", num_frames=600)]
VIDEO = [Clip("a", "a.mp4", "video", num_frames=600)]


def dying(*places, times=None, **more):
    """A script in which the worker dies at these places, or so often at the only one."""
    places = places if times is None else places * times
    how = {"reason": "killed by SIGSEGV", "worker_index": 0, **more}
    return lambda task, number: (
        [Died(task, places[number - 1], **how)] if number <= len(places) else None
    )


def dying_alone(frame, phase):
    """A script in which all before a frame is committed, and the worker dies of it four times."""

    def script(task, number):
        if number > 4:
            return None
        died = Died(task, (0, frame, phase, 0), "killed by SIGSEGV", 0)
        if task.suspect_frame is None:
            return [died]
        unit = task.units[0]
        moved = UnitProgress(unit.unit_no, unit.clip_no, "all", frame, None, False, 0, ())
        return [Output(task, Committed(None, (moved,))), died]

    return script


@pytest.mark.parametrize("phase", [Phase.DECODING, Phase.ESTIMATING])
def test_a_frame_is_given_up_when_its_worker_died_three_times_of_it_alone(play, phase):
    part, tasks = play(FRAMES, dying_alone(7, phase))
    assert part.skip == {7: "killed by SIGSEGV, 3 times, at this frame alone"}
    assert part.give_up is None
    assert all(not task.units[0].given_up for task in tasks[:4])
    assert [task.tries for task in tasks] == [0, 1, 1, 1, 0]
    assert [task.suspect_frame for task in tasks] == [None, 7, 7, 7, None]
    assert [task.is_careful for task in tasks] == [False, True, True, True, False]
    assert len({task.name for task in tasks}) == 5


def test_a_video_that_its_decoder_dies_of_is_given_up_from_there(play):
    part, _ = play(VIDEO, dying_alone(7, Phase.DECODING))
    assert part.give_up == (7, "killed by SIGSEGV, 3 times, at this frame alone")
    assert part.skip == {}


@pytest.mark.parametrize("place", [(0, 7, Phase.ESTIMATING, 0), (-1, -1, Phase.STARTING, 0)])
def test_a_frame_that_was_never_tried_alone_is_not_given_up(play, place):
    part, _ = play(FRAMES, dying(place, times=5))
    assert (part.skip, part.give_up) == ({}, None)


def test_a_death_outside_of_any_frame_makes_the_next_worker_careful(play):
    _, tasks = play(FRAMES, dying((-1, -1, Phase.WRITING, 5)))
    assert (tasks[1].is_careful, tasks[1].tries, tasks[1].suspect_frame) == (True, 1, None)


def test_the_other_units_of_a_dead_worker_s_task_go_on_as_they_were(play):
    clips = [Clip(name, name, "frames", num_frames=2) for name in "abc"]
    _, tasks = play(clips, dying((1, 1, Phase.ESTIMATING, 0)))
    assert [unit.clip.clip_id for unit in tasks[0].units] == [*"abc"]
    assert [unit.clip.clip_id for unit in tasks[1].units] == ["b"]
    assert tasks[1].suspect_frame == 1


def killed_from_outside(times):
    """A script in which somebody kills the worker at the same frame, so many times."""
    return dying((0, 7, Phase.ESTIMATING, 0), times=times, reason="killed by SIGKILL",
                 is_from_outside=True)  # fmt: skip


def test_kills_from_outside_blame_no_frame_change_nothing_and_are_news_once(play):
    snapshots = []
    part, tasks = play(VIDEO, killed_from_outside(20), snapshots.append)
    assert (part.skip, part.give_up) == ({}, None)
    assert {(task.tries, task.is_careful) for task in tasks} == {(0, False)}
    news = [text for snapshot in snapshots for text in snapshot.news]
    assert len(news) == 20
    assert all("worker 0" in text and "SIGKILL" in text for text in news)


def test_kills_from_outside_without_end_stop_the_run_and_give_nothing_up(play, count_rows):
    said = r"died 30 times without any .*SIGKILL.*none was given up: find out who ends them"
    with pytest.raises(RunError, match=said):
        play(VIDEO, killed_from_outside(100))
    assert count_rows("crashes") == 0


def test_illegal_instructions_before_any_frame_are_the_machine_s_and_no_frame_s(play, count_rows):
    def script(task, number):
        trapped = Died(task, (0, 0, Phase.ESTIMATING, 0), "illegal instruction (SIGILL)", 1,
                       is_refused_instruction=True)  # fmt: skip
        # Another machine, which does not refuse it, goes on meanwhile.
        return [Output(task, Committed(None, ())), trapped] if number < 9 else None

    with pytest.raises(RunError, match=r"died 3 times .*SIGILL.*none was given up.*doctor"):
        play(FRAMES, script)
    assert count_rows("crashes WHERE is_given_up") == 0


def test_no_worker_starts_once_a_signal_came(play, monkeypatch):
    monkeypatch.setattr(StopSignals, "received", 15)
    with pytest.raises(StoppedError, match="stopped by signal 15"):
        play(FRAMES, lambda task, number: pytest.fail("was given a task"))


def test_crashes_at_ever_other_frames_end_too(play):
    part, _ = play(FRAMES, dying(*((0, number, Phase.ESTIMATING, 0) for number in range(10))))
    assert part.give_up[0] == 0
    assert "workers died 10 times, at different frames" in part.give_up[1]


def test_workers_that_never_start_end_the_run_and_blame_no_unit(play, count_rows):
    with pytest.raises(RunError, match=r"a worker died 10 times .*\(exit code 3\)"):
        play(FRAMES, lambda *_: [Died(None, (0, 0, 0, 0), "exit code 3", 0)] * 10)
    with pytest.raises(RunError, match=r"a worker died 10 times .*fewer workers"):
        play(FRAMES, dying((-1, -1, Phase.STARTING, 0), times=10))
    assert count_rows("crashes") == 0


def test_what_no_worker_can_do_is_raised_as_what_it_is_or_as_ours_and_commits_are_kept(
    play, tmp_path
):
    def script(task, number):
        moved = UnitProgress(1, 1, "all", 7, None, False, 0, ())
        fatal = Fatal("DeviceError", "no cuda:3 here")
        return [Output(task, Committed(None, (moved,))), Output(task, fatal)]

    with pytest.raises(DeviceError, match="no cuda:3 here"):
        play(FRAMES, script)
    with read_ledger(tmp_path) as ledger:
        assert ledger.units([1], FRAMES)[0].next_frame == 7
    # An engine of another package may have a class of its own.
    with pytest.raises(PosemillError, match="no licence"):
        play(FRAMES, lambda task, _: [Output(task, Fatal("LicenceError", "no licence"))])


def test_a_machine_that_takes_all_its_workers_with_it_does_not_end_the_run(play):
    """64 workers on two machines: the 32 of one die at once, and once more on the next."""

    def script(task, number):
        place = (0, 7, Phase.ESTIMATING, 0)
        died = Died(task, place, "node died", number % 32, is_from_outside=True)
        return [died] if number <= 64 else None

    part, tasks = play(FRAMES, script)
    assert (part.skip, part.give_up, len(tasks)) == ({}, None, 65)


def test_the_frames_of_a_worker_with_a_broken_engine_go_to_another_one(play, tmp_path):
    def script(task, number):
        broken = Died(task, (0, 7, Phase.ESTIMATING, 0), "its engine failed: CUDA error", 0)
        return None if number > 1 else [Output(task, broken), Finished(task)]

    _, tasks = play(FRAMES, script)
    assert [unit.unit_no for unit in tasks[1].units] == [1]
    assert tasks[1].suspect_frame == 7
    assert "worker 0: its engine failed: CUDA error" in (tmp_path / "log").read_text()
