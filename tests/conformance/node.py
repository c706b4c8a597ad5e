"""The official suites and the official inspector."""

import subprocess
from pathlib import Path

from tests.node import NodePackages

HERE = Path(__file__).parent
_PACKAGES = NodePackages(HERE)


def install() -> None:
    """Install them, when that has not been done yet."""
    _PACKAGES.install()


def node(script: str, *arguments: str, timeout: float = 90.0) -> subprocess.CompletedProcess[str]:
    """Run a script of an installed package. Its output and its errors are in `stdout`."""
    return _PACKAGES.run(_PACKAGES.modules / script, *arguments, timeout=timeout)
