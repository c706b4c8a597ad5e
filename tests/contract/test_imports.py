"""What processes do not load at their start, because it takes long and they may not need it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["workspaces.app", "pallas_cli.main", "pallas_mcp_calls.late"])
def test_the_mcp_sdk_is_not_loaded_at_the_start(module: str) -> None:
    code = (
        f"import sys, {module}; print([name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
