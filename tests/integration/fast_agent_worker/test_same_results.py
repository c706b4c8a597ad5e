"""What stands in for functions of fast-agent and OpenAI's client has their results, in the versions of the lock."""

import subprocess
from pathlib import Path

from tests.integration.fast_agent_worker.stage import python


def test_the_shorter_ways_have_the_results_of_the_longer_ones() -> None:
    check = Path(__file__).parent / "stock" / "same_results.py"
    done = subprocess.run([python(), check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
