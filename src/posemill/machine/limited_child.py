"""Shares of this machine, and the start of a training of a sweep in one.

    python -m posemill.machine.limited_child PARENT CORES MEMORY COMMAND...

sets its limits before it becomes the command; and on Linux it asks the kernel to be killed when the
sweep ends, however that ends. The request lasts through the change of program.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from posemill.errors import ConfigError
from posemill.machine.limits import count_cores, free_memory
from posemill.machine.processes import die_with_parent, python_command


@dataclass(frozen=True)
class Share:
    """What one of several jobs may use."""

    cores: tuple[int, ...]
    num_threads: int  # at once: a container may have a quota of the time of its cores
    memory_bytes: int

    def command(self, *command: str) -> list[str]:
        """Return a command line tied to this share and to the life of this process."""
        limits = (str(os.getpid()), ",".join(map(str, self.cores)), str(self.memory_bytes))
        return python_command("posemill.machine.limited_child", *limits, *command)


def divide_machine(jobs: int) -> list[Share]:
    """Return the shares of so many jobs: cores dealt out evenly, memory in equal parts."""
    available = count_cores()
    if jobs < 1 or jobs > available:
        raise ConfigError(
            "{--workers}: expected 1 to {num_cores} on this machine (one core each), got {workers}",
            num_cores=available,
            workers=jobs,
        )
    has_names = hasattr(os, "sched_getaffinity")
    cores = tuple(sorted(os.sched_getaffinity(0)) if has_names else range(available))
    memory = int(free_memory() * 0.9) // jobs
    return [
        Share(cores[index::jobs], len(range(available)[index::jobs]), memory)
        for index in range(jobs)
    ]


def main() -> None:
    """Take the share of this command line, and run its command in this process."""
    _, parent, cores, memory_bytes, *command = sys.argv
    die_with_parent()
    if sys.platform == "linux":
        import resource

        # Data, not address space: mapped caches are shared and may be larger than memory.
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory_bytes), int(memory_bytes)))
    if hasattr(os, "sched_setaffinity") and cores:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    if os.name == "posix" and os.getppid() != int(parent):
        sys.exit("posemill: the sweep has ended before this training began")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
