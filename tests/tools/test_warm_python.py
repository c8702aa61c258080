import signal
import subprocess
import time

# Ready for signals at once, and gone a moment later.
PROGRAM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(0.01)"
)


def test_a_signal_that_comes_when_a_program_ends_is_no_error_of_its_client(warm_python):
    for _ in range(40):
        process = subprocess.Popen(
            [warm_python.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout.readline() == "up\n"
            while process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(0.0005)  # as quick as it may be without filling its stack
            assert (process.returncode, process.stderr.read()) == (0, "")
