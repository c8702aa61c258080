"""The machine a process runs on: its limits, locks, disks, child processes and threads."""
