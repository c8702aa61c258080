"""`python -m posemill` is the same as `posemill`."""

from posemill.cli.app import main

if __name__ == "__main__":
    main()
