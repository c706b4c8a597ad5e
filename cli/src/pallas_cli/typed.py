"""What a person types to run `pallas` as this process was run."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def typed(environ: Mapping[str, str] = os.environ) -> str:
    """`pallas` if it is installed, or with the `uv run` by which this process was started (uv says so in `UV`).

    uv that is not on PATH is named by its path, as in a checkout where `make` has installed it.
    """
    uv = environ.get("UV")
    if uv is None:
        return "pallas"
    path = Path(uv)
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{'uv' if shutil.which('uv', path=environ.get('PATH')) else here} run pallas"
