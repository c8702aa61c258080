"""`python -m posemill` is the same as `posemill`."""

from posemill.commands.line import main

if __name__ == "__main__":
    main()
