"""The release before this one: its commit, and its sources as files.

It is the newest tag `v*` behind this commit. While there is none, it is the commit in `PINNED`, which stands for a
release: of all services, with a data model that has grown since.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from tests.contract.tree import ROOT

PINNED = "1c8787be6fd9df1b89fb00f40cb06194ee14bfb0"
_KEPT = Path(sys.prefix) / "previous"
_FOLDERS = ("shared", "services", "clients", "cli", "demo")


class NoHistory(Exception):
    """The release before this one is not in this clone."""


@cache
def commit() -> str:
    """The full hash of the release before this one.

    Raises:
        NoHistory: this clone does not have it.
    """
    tag = _git("describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^")
    found = _git("rev-parse", "--verify", "--quiet", f"{tag or PINNED}^{{commit}}")
    if found is None:
        shallow = _git("rev-parse", "--is-shallow-repository") == "true"
        why = "this clone is shallow: git fetch --unshallow --tags" if shallow else "git fetch --tags"
        raise NoHistory(f"the release before this one ({tag or PINNED}) is not in the history of {ROOT}; {why}")
    return found


def text(path: str) -> str | None:
    """A file of that release; None if it had none."""
    return _git("show", f"{commit()}:{path}")


def names(folder: str) -> list[str]:
    """The names of the files in a folder of that release."""
    return (_git("ls-tree", "--name-only", f"{commit()}:{folder}") or "").split()


def sources() -> Path:
    """A folder with its packages. It is kept for later runs, without those of other releases."""
    place = _KEPT / commit()[:12]
    if not place.exists():
        shutil.rmtree(_KEPT, ignore_errors=True)
        _KEPT.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", commit(), *_FOLDERS], cwd=ROOT, capture_output=True, check=True, timeout=60
        )
        fresh = tempfile.mkdtemp(dir=_KEPT)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(fresh, filter="data")
        _compile(fresh)
        Path(fresh).rename(place)
    return place


def _compile(folder: str) -> None:
    """Else each process would, where Python is told to write no bytecode."""
    command = [sys.executable, "-m", "compileall", "-q", "-j2", "-s", folder, folder]
    subprocess.run(command, check=False, capture_output=True, timeout=100)


def _git(*words: str) -> str | None:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    return run.stdout.rstrip("\n") if run.returncode == 0 else None
