import faulthandler
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

from posemill.decoders.pictures import read_picture
from posemill.errors import WeightsError
from posemill.terminal import warn_once
from posemill.weights.pull import ensure_media, ensure_model

sys.path.append(str(Path(__file__).parent))  # for made_up_people, s3_fixtures
from s3_fixtures import s3_bucket, s3_server  # noqa: F401

from tools.warm_python import WarmPython, start_warm

os.environ["POSEMILL_LANG"] = "en"  # whatever the machine speaks
# A deadline per example fails on a busy machine, where nothing is wrong with the code.
settings.register_profile("posemill", deadline=None)
settings.load_profile("posemill")

# A suite run in the background (nohup, `&`) ignores Ctrl-C, and what tests start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# pytest adds its handlers to each logger that does not propagate, six times a test: torch has 43.
for logger in logging.getLogger("torch").manager.loggerDict.values():
    if isinstance(logger, logging.Logger) and logger.name.startswith("torch"):
        logger.propagate = True

SHARD_PYTHON = os.environ.pop("POSEMILL_TEST_PYTHON", "")  # of tools/shards.py
SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item, settings):
    """Write the stacks and end the process, by a thread of C: one of Python takes 0.5 ms a test."""
    output = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(settings.timeout, exit=True, file=output)
    item.cancel_timeout = faulthandler.cancel_dump_traceback_later
    return True


@pytest.fixture(scope="session")
def shared():
    """Material that is not part of the project; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: material kept outside of the project")
    return SHARED


@pytest.fixture(scope="session")
def model_files():
    """The default engine's model files by name, fetched if need be; skips without a network."""
    from posemill.weights.catalogue import CATALOGUE

    wanted = [pinned for pinned in CATALOGUE.values() if pinned.kind == "model"]
    return {
        pinned.name: _or_skip(ensure_model, pinned.name)
        for pinned in wanted
        if not pinned.on_demand
    }


@pytest.fixture(scope="session")
def need_model():
    """Where any model file of the catalogue is, fetched if need be; skips without a network."""
    return lambda name: _or_skip(ensure_model, name)


@pytest.fixture(scope="session")
def media():
    """Where a clip or picture of the catalogue is, fetched if need be; skips without a network."""
    return lambda name: _or_skip(ensure_media, name)


@pytest.fixture(scope="session")
def photo():
    """A real picture of a person, `(512, 512, 3)` RGB; skips without a network."""
    return read_picture(_or_skip(ensure_media, "astronaut"))


@pytest.fixture
def install_entry_points(tmp_path_factory, monkeypatch):
    """Returns a function: `{group: {name: "module:object"}}` as an installed package has them."""

    def install(groups):
        folder = tmp_path_factory.mktemp("site")
        lines = [
            line
            for group, rows in groups.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in rows.items()))
        ]
        info = folder / "outside-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return install


def _or_skip(fetch, name):
    try:
        return fetch(name)
    except WeightsError as error:
        pytest.skip(f"no model files: {error}")


@pytest.fixture
def start_process():
    """`psutil.Popen`; at the end of the test its processes end, whatever came of the test.

    A process left by a failing test would be reported as an error of some later one.
    """
    started = []

    def start(command, **options):
        started.append(psutil.Popen(command, **options))
        return started[-1]

    yield start
    for process in started:
        family = [process]
        with suppress(psutil.NoSuchProcess):
            family += process.children(recursive=True)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory):
    """A Python that has loaded torch, for processes of tests that use `warm_children`."""
    if SHARD_PYTHON:
        yield WarmPython(SHARD_PYTHON, dict(os.environ))
        return
    with start_warm(tmp_path_factory.mktemp("warm"), os.environ) as python:
        yield python


@pytest.fixture
def warm_children(warm_python):
    """What the test, or posemill in it, starts by `sys.executable` has loaded torch already."""
    with warm_python.used():
        yield


@pytest.fixture(autouse=True)
def _warn_anew():
    """Let each test see the warnings that are logged only once."""
    warn_once.cache_clear()
