"""The environment variables of a program, and of what it starts."""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path


def activate(folder: Path, environ: MutableMapping[str, str]) -> None:
    """Put the programs of the folder's environment first, as if its user had activated it, and then this one's.

    So `command: python` is a Python that has the folder's packages, or at least fast-agent's.
    """
    own, places = folder / ".venv", [Path(sys.executable).parent]
    if (own / "bin").is_dir():
        places.insert(0, own / "bin")
        environ["VIRTUAL_ENV"] = str(own)
    environ["PATH"] = os.pathsep.join([*map(str, places), environ.get("PATH", os.defpath)])
