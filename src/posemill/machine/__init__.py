"""The machine a process runs on: its limits, locks, disks, child processes and threads."""

# True in the process of the command line: nothing has been computed there but by us.
is_own_program = False
