"""The training loop: steps, precision, processes, schedules, timing."""
