"""Child processes of tests react to Ctrl-C, also when the tests run in the background of a shell."""

import subprocess
import sys

_CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
_TESTS = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {_CHILD!r}], check=True)"


def test_a_child_of_tests_in_the_background_of_a_shell_reacts_to_ctrl_c() -> None:
    background = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", sys.executable, "-c", _TESTS]
    assert subprocess.run(background, capture_output=True, text=True, check=True).stdout == "True\n"
