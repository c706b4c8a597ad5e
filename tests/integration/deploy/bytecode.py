"""Bytecode for environments that tests make: without it, each compiles again all that its processes import."""

import os
import shutil
import sys
from pathlib import Path


def link_bytecode(environment: Path) -> None:
    """Give an environment the bytecode of this one, which Python uses where the source has the same time and size."""
    [here] = Path(sys.prefix).glob("lib/python3.*/site-packages")
    [there] = environment.glob("lib/python3.*/site-packages")
    for cache in here.rglob("__pycache__"):
        target = there / cache.relative_to(here)
        if target.parent.is_dir() and not target.exists():
            shutil.copytree(cache, target, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
