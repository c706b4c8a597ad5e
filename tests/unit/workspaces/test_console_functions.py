"""The pure functions of the console, in Node. They are in `tests/unit/workspaces/console`."""

import subprocess
from pathlib import Path

from tests.node import NODE


def test_the_functions_of_the_console_do_what_their_tests_say() -> None:
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", str(Path(__file__).parent / "console" / "**" / "*.test.mjs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert "# pass 0" not in done.stdout
