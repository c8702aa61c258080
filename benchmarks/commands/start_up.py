"""CPU time of `import posemill` and `posemill --help`, each in new processes.

    python -m benchmarks.commands.start_up [--rounds 10] [--json]

Also in instructions, which no load changes. Wanted: under 0.2 and 0.4 s; `tests/test_public_api.py`
holds the same.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.shared.instructions import count_process, missing
from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    over_rounds,
    report,
    run_alone,
)

COMMANDS = {
    "import": [sys.executable, "-c", "import posemill"],
    "help": [sys.executable, "-m", "posemill", "--help"],
}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    arms = {name: partial(run_alone, command) for name, command in COMMANDS.items()}
    taken = in_turns(arms, options.rounds, clock=None)
    found = {
        f"{name}_seconds": over_rounds(each.cpu_seconds for each in used)
        for name, used in taken.items()
    }
    if not missing():
        for name, command in COMMANDS.items():
            found[f"{name}_instructions"] = Measured(count_process(command) / 1e6)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
