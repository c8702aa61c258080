"""What a process has to know and to do when torchrun started it; needs no torch."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def under_torchrun() -> bool:
    """Return True where torchrun (or a launcher that speaks like it) started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_first_process() -> bool:
    """Return True in the one process that writes files and prints."""
    return not under_torchrun() or os.environ["RANK"] == "0"


def leave_at_once() -> NoReturn:
    """End this process well, without Python's and torch's clean-up.

    For a process of a group whose work is done: a thread of gloo that asks for the interpreter
    while that ends is ended too, and now and then takes the process down by an abort.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
