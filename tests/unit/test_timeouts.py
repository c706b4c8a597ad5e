"""A test that hangs fails, and those after it run."""

import subprocess
import sys
from pathlib import Path

from tests.contract.tree import ROOT

HANGING = """
import asyncio
import pytest

@pytest.fixture
async def server():
    yield
    await asyncio.sleep(0)

@pytest.mark.timeout(1)
async def test_hangs(server):
    await asyncio.Event().wait()

async def test_after_it(server):
    pass
"""


def test_a_test_that_hangs_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import anyio_backend\n", "utf-8")
    (tmp_path / "test_hanging.py").write_text(HANGING, "utf-8")
    options = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "tests.timeouts")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert "test_hanging.py::test_hangs took longer than 1 s" in run.stdout
    assert "Event.wait" in run.stdout
