"""The start of one training of a sweep: takes its share of the machine, then becomes the command.

    python -m posemill.machine.limited_child PARENT CORES MEMORY COMMAND...

A process of its own sets its limits before the training begins, not a moment after; and on Linux
it asks the kernel to be killed when the sweep ends, however that ends: what a killed sweep leaves
behind would go on training beside the next one. The request lasts through the change of program.
"""

from __future__ import annotations

import os
import sys

from posemill.machine.processes import die_with_parent


def main(parent: int, cores: list[int], memory_bytes: int, command: list[str]) -> None:
    """Take the share and run the command in this process; does not return.

    Args:
        parent: Process id of the sweep.
        cores: Which cores; none for all.
        memory_bytes: How much memory.
        command: The program and its arguments.
    """
    die_with_parent()
    if sys.platform == "linux":
        import resource

        # Data, not address space: mapped caches are shared and may be larger than memory.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if hasattr(os, "sched_setaffinity") and cores:
        os.sched_setaffinity(0, cores)
    if os.name == "posix" and os.getppid() != parent:
        sys.exit("posemill: the sweep has ended before this training began")
    os.execvp(command[0], command)


if __name__ == "__main__":
    _, given_parent, given_cores, given_memory, *rest = sys.argv
    main(
        int(given_parent),
        [int(core) for core in given_cores.split(",") if core],
        int(given_memory),
        rest,
    )
