"""Kills on an object store whose answers fail: what a run loses, and what it has twice.

    python -m benchmarks.datasets.place_faults [--kills 100] [--rate 0.1] [--seed 1] [--json]

An S3 server (moto) and a proxy on loopback that answers some requests with 503, late, in part or
not at all after they were done. Coordinators of an extraction with made-up keypoints are ended by
SIGKILL at random moments and begun again, on one of two machines (cache folders) that know nothing
of each other; one in five is stopped instead, overtaken, and woken up again, as one that was cut
off. Each run until it ends by itself; then its rows, read by a third machine, are compared with
those of an unbroken run on a disk, bit by bit, and its records are looked through for those that an
older coordinator wrote after a newer one. Prints how many of each, and how many differ (wanted:
none).
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import posemill
from benchmarks.datasets.faults import make_frames, rows_of
from benchmarks.shared.fault_proxy import FaultProxy
from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.places import open_place
from posemill.runs.records import PREFIX

# As in `faults`, with machines. A stopped child is woken up after the next one, and waited for.
_FORKER = """
import os, signal, sys, time
from pathlib import Path
from posemill.config import ExtractConfig
from posemill.errors import RunError, PlaceError
from posemill.jobs.extract.run import extract
from posemill.places import lease
lease.RENEW_SECONDS, lease.PATIENCE_SECONDS = 0.2, 1.5

def begin(out, machine):
    pid = os.fork()
    if pid:
        return pid
    os.close(0)
    os.environ["POSEMILL_CACHE"] = machine
    config = ExtractConfig(Path(sys.argv[1]), Path(out), engine="fake", executor="serial",
                           task_frames=8, engine_options={"seconds_per_frame": 0.004})
    try:
        code = extract(config).exit_code
    except PlaceError as error:
        code = 20
    except RunError as error:
        print(error, file=sys.stderr, flush=True)
        code = 30
    os._exit(code)

def wait(pid, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None

for line in sys.stdin:
    out, machine, seconds, other = line.split()
    pid = begin(out, machine)
    code = wait(pid, float(seconds))
    if code is None and other != "-":
        os.kill(pid, signal.SIGSTOP)
        second = begin(out, other)
        overtaken = wait(second, 1.5 + 2 * float(seconds))
        if overtaken is None:
            os.kill(second, 9)
            os.waitpid(second, 0)
        os.kill(pid, signal.SIGCONT)
        woken = wait(pid, 60)
        if woken is None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        print("woken", woken, overtaken, flush=True)
        continue
    if code is None:
        os.kill(pid, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("killed", code, "-", flush=True)
"""
_KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@contextmanager
def s3_behind_a_proxy(rate: float, seed: int) -> Iterator[FaultProxy]:
    """Yield the proxy; the environment leads through it to the bucket `bucket`."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        url = f"http://127.0.0.1:{port}/bucket"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
        with FaultProxy(("127.0.0.1", port), rate=rate, seed=seed) as proxy:
            os.environ.update(_KEYS, AWS_ENDPOINT_URL=proxy.url)
            yield proxy
    finally:
        server.stop()


def late_records(uri: str) -> int:
    """Return how many records an older epoch wrote after a newer one: one cut off that committed.

    A coordinator that wakes up need not be refused: it may have been stopped before it had the
    lease, after its last commit, or the other one may have been killed before it took over.
    """
    place = open_place(uri)
    contents = [place.get(entry.key) for entry in place.list(PREFIX)]
    epochs = [json.loads(gzip.decompress(content or b""))["epoch"] for content in contents]
    return sum(before > after for before, after in pairwise(epochs))


def kill_coordinators(folder: Path, num_kills: int, proxy: FaultProxy, seed: int,
                      ) -> dict[str, Measured]:  # fmt: skip
    """Return how many kills there were, in how many runs, what woke up, and how many differ."""
    rng = random.Random(seed)
    source = make_frames(folder / "frames")
    whole = posemill.extract(source, out=folder / "whole", engine="fake", executor="serial",
                             progress=False).run  # fmt: skip
    kills = runs = woken = refused = different = gave_up = late = 0
    with subprocess.Popen([sys.executable, "-c", _FORKER, str(source)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as forker:  # fmt: skip
        assert forker.stdin is not None
        assert forker.stdout is not None
        while kills + woken < num_kills:
            runs, tries, is_done = runs + 1, 0, False
            while not is_done:
                # Longer and longer: on a busy machine a start alone can take seconds.
                tries += 1
                machines = rng.sample(["a", "b"], 2)
                other = folder / machines[1] if rng.random() < 0.2 else "-"
                seconds = rng.uniform(0.2, 2.0 + 0.1 * tries)
                print(f"s3://bucket/run{runs} {folder / machines[0]} {seconds} {other}",
                      file=forker.stdin, flush=True)  # fmt: skip
                what, code, overtaken = forker.stdout.readline().split()
                is_done = code in ("0", "1") or overtaken in ("0", "1")
                gave_up += code == "20"
                if what == "woken":
                    woken += 1
                    refused += code == "30"
                else:
                    kills += code == "-9"
                print(f"run {runs}: {what} {code}, the other {overtaken}; {kills} kills, {woken} "
                      f"woken, {refused} refused, {gave_up} gave up; {dict(proxy.met)}",
                      file=sys.stderr)  # fmt: skip
            rate, proxy.rate = proxy.rate, 0.0
            os.environ["POSEMILL_CACHE"] = str(folder / "reader")
            run = posemill.open_run(f"s3://bucket/run{runs}")
            different += not run.is_finished or rows_of(run) != rows_of(whole)
            different += run.counts != whole.counts
            late += late_records(f"s3://bucket/run{runs}")
            proxy.rate = rate
    faults = sum(number for name, number in proxy.met.items() if name != "none")
    return {
        "kills_on_storage": Measured(kills), "woken_on_storage": Measured(woken),
        "refused_on_storage": Measured(refused), "faults_on_storage": Measured(faults),
        "late_records_on_storage": Measured(late), "killed_runs_on_storage": Measured(runs),
        "killed_runs_on_storage_that_differ": Measured(different),
    }  # fmt: skip


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.1, help="share of requests that fail")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_behind_a_proxy(options.rate, options.seed) as proxy,
    ):
        found = kill_coordinators(Path(folder), options.kills, proxy, options.seed)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
