"""`posemill`, and `python -m posemill`, which is the same."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it as quietly while it is still being loaded."""
    try:
        from posemill.commands.line import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
