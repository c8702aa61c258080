"""What this machine says about its processor and its kernel."""

from __future__ import annotations

import platform
from pathlib import Path

_CPU_FACTS = ("model name", "microcode", "flags", "Features")


def processor_name() -> str:
    """Return the processor's name, as the system gives it."""
    return _first_processor().get("model name") or platform.processor() or platform.machine()


def machine_facts() -> dict[str, str]:
    """Return what decides which instructions work here; another start of the machine is another."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    processor = _first_processor()
    return {
        "machine": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "boot": boot,
        **{name: processor.get(name, "") for name in _CPU_FACTS},
    }


def _first_processor() -> dict[str, str]:
    """Return the facts of the first processor; empty where the system is not Linux."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
