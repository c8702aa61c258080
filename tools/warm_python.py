"""Python processes that start at once, for tests where a process is the point, and not its start.

`WarmPython.executable` is used like `python`. It asks a process that has loaded torch and posemill
to copy itself, and the copy runs the program: with the arguments, environment, folder and open
files that were given. Signals go there, the exit code or signal comes back; a copy is killed with
the process that asked for it.

The process is started by `start_warm`, or it is a copy of the process of a shard, made before its
tests (`copy_warm`), which then has nothing to load.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import multiprocessing.spawn
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

CLIENT = """#!{python} -SI
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({address!r})


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return number != server.fileno()


files = [number for number in map(int, os.listdir("/proc/self/fd")) if is_open(number)]
request = dict(
    arguments=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd(), files=files,
    parent=os.getppid(), cores=list(os.sched_getaffinity(0)),
)
content = json.dumps(request).encode()
signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until they can be passed on
socket.send_fds(server, [len(content).to_bytes(8, "big")], files)
server.sendall(content)


def pass_on(number, _):
    try:
        server.send(bytes([number]))
    except OSError:
        pass  # the program has just ended: its answer is there


for number in signals:
    signal.signal(number, pass_on)
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
answer = server.recv(2)
if not answer:
    sys.exit("the warm process is gone")
code = int.from_bytes(answer, "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@dataclass
class Request:
    """A program to run: see the client above."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    files: list[int]
    parent: int
    cores: list[int]
    received: list[int]


class Server:
    """Copies this process for each request, until standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, tuple[socket.socket, int]] = {}  # by the pidfd of their copies

    def serve(self) -> Request:
        """Return a request in each copy; does not return in this process."""
        while True:
            asking = {client.fileno(): pidfd for pidfd, (client, _) in self._clients.items()}
            files = [0, self._listener.fileno(), *self._clients, *asking]
            ready, _, _ = select.select(files, [], [])
            if 0 in ready:  # whoever uses us has gone
                for _, pid in self._clients.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            for number in set(ready) & set(asking):
                client, pid = self._clients[asking[number]]
                sent = client.recv(1)
                os.kill(pid, sent[0] if sent else signal.SIGKILL)
            for pidfd in set(ready) & set(self._clients):
                self._answer(pidfd)
            if self._listener.fileno() in ready and (request := self._accept()):
                return request

    def _answer(self, pidfd: int) -> None:
        """Tell a client how its copy has ended."""
        client, pid = self._clients.pop(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # the client was killed
            client.send(code.to_bytes(2, "big", signed=True))
        client.close()
        os.close(pidfd)

    def _accept(self) -> Request | None:
        """Copy this process; return the request in the copy, None here."""
        client, _ = self._listener.accept()
        size, received, _, _ = socket.recv_fds(client, 8, 250)
        content = b""
        while len(content) < int.from_bytes(size, "big"):
            content += client.recv(2**20)
        pid = os.fork()
        if pid == 0:
            for open_file in (self._listener, client, *(one for one, _ in self._clients.values())):
                open_file.close()
            return Request(**json.loads(content), received=received)
        for number in received:
            os.close(number)
        self._clients[os.pidfd_open(pid)] = client, pid
        return None


def take_over(request: Request) -> None:
    """Give this process the files, the folder and the environment of a request."""
    os.setsid()
    # High numbers first: a file may have the number that another one is to get.
    copies = [fcntl.fcntl(received, fcntl.F_DUPFD, 300) for received in request.received]
    for received in request.received:
        os.close(received)
    for copy, number in zip(copies, request.files, strict=True):
        os.dup2(copy, number)
        os.close(copy)
    os.getppid = lambda: request.parent  # who started the client
    os.sched_setaffinity(0, request.cores)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    for folder in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)


def run_program(arguments: list[str]) -> None:
    """Run a module (-m), a text (-c) or a file as `python` does."""
    is_safe = "PYTHONSAFEPATH" in os.environ
    while arguments[0][:2] in ("-P", "-B", "-W", "-X", "-u"):
        option = arguments.pop(0)
        is_safe |= option == "-P"
        if option in ("-W", "-X"):
            option += arguments.pop(0)
        if option.startswith("-W"):
            warnings._processoptions([option[2:]])  # type: ignore[attr-defined]
    kind = arguments.pop(0) if arguments[0] in ("-m", "-c") else "file"
    if not is_safe:
        folder = Path(arguments[0]).resolve().parent if kind == "file" else Path.cwd()
        sys.path.insert(0, "" if kind == "-c" else str(folder))
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    text, sys.argv = arguments[0], arguments
    if kind == "-m":
        runpy._run_module_as_main(text)  # type: ignore[attr-defined]
        return
    name = "<string>"
    if kind == "-c":
        sys.argv[0] = "-c"
    else:
        name = main.__file__ = str(Path(text).absolute())
        text = Path(name).read_text(encoding="utf-8")
    exec(compile(text, name, "exec"), main.__dict__)


def code_of(request: Request) -> int:
    """Return the exit code of the program of a request, which runs in this process."""
    try:
        take_over(request)
        run_program(request.arguments)
    except SystemExit as error:
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:  # noqa: BLE001  as Python itself does
        traceback.print_exc()
        return 1
    return 0


def leave(code: int) -> None:
    """End the process, without the time that Python takes to free what torch has loaded."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(ValueError, OSError):  # closed by the program
        sys.stdout.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(listener: socket.socket, executable: str) -> None:
    """Run the programs of clients, each in a copy of this process; does not return."""
    program = Server(listener).serve()
    # Ours are ignored by a run in the background, or end it in its own way.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    use(executable)  # what the program starts is warm, too
    leave(code_of(program))


def use(executable: str) -> None:
    """Let processes that this one starts be run by an executable."""
    sys.executable = executable
    multiprocessing.spawn.set_executable(executable)


def write_client(folder: Path) -> tuple[str, str]:
    """Write the executable into a folder of its own; return it and the address that it asks."""
    executable, address = folder / "python", str(folder / "s")
    executable.write_text(CLIENT.format(python=sys.executable, address=address))
    executable.chmod(0o755)
    return str(executable), address


def listen(address: str) -> socket.socket:
    """Return what clients connect to."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    return listener


@dataclass
class WarmPython:
    """A Python that has loaded torch and posemill."""

    executable: str
    environment: dict[str, str]  # what Python and torch have read when they started

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let processes that are started inside the block by posemill be warm ones."""
        cold = sys.executable
        use(self.executable)
        try:
            yield
        finally:
            use(cold)


@contextmanager
def start_warm(folder: Path, environment: Mapping[str, str]) -> Iterator[WarmPython]:
    """Load torch and posemill in a process with a folder and an environment of its own."""
    executable, address = write_client(folder)
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, address, executable], env=dict(environment),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield WarmPython(executable, dict(environment))


@contextmanager
def copy_warm(folder: Path) -> Iterator[WarmPython]:
    """Copy this process, which has loaded torch and posemill and has no threads."""
    executable, address = write_client(folder)
    listener = listen(address)
    its_end, our_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(its_end, 0)
        for number in (our_end, its_end):
            os.close(number)
        sys.path[:] = [entry for entry in sys.path if entry != str(Path.cwd())]  # of `python -m`
        try:
            serve(listener, executable)
        finally:
            os._exit(1)
    os.close(its_end)
    listener.close()
    try:
        yield WarmPython(executable, dict(os.environ))
    finally:
        os.close(our_end)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    loaded = "torch posemill.commands.line posemill.jobs.extract.run posemill.training.launch.start"
    for module in loaded.split():
        import_module(module)
    with suppress(ImportError):  # of extras: what a training draws and logs with
        import_module("matplotlib.figure")
        import_module("torch.utils.tensorboard")
    gc.freeze()  # pages that a copy does not touch are not copied
    warm_listener = listen(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    serve(warm_listener, sys.argv[2])
