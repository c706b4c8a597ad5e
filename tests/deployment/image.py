"""`deploy/Dockerfile`, as far as it can be carried out without Docker: copying, and installing a package."""

import re
import shlex
import shutil
from pathlib import Path

from tests.contract.tree import ROOT

PATH = ROOT / "deploy" / "Dockerfile"
_INSTALL = re.compile(r"^RUN (?:--mount=\S+ )*(uv sync .+)$", re.MULTILINE)
_COPY = re.compile(r"^COPY (?!--from)(.+) (\S+)$", re.MULTILINE)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".venv", "fastagent.secrets.yaml")


def text() -> str:
    """The whole file."""
    return PATH.read_text("utf-8")


def install_command(package: str, project: str = ".") -> list[str]:
    """The command that installs a package of a project, which is the workspace by default."""
    [command] = _INSTALL.findall(text())
    return [word.replace("$PACKAGE", package).replace("$PROJECT", project) for word in shlex.split(command)]


def build_environment() -> dict[str, str]:
    """What the build stage sets."""
    stage = text().partition(" AS build\n")[2].partition("\nFROM ")[0]
    words = shlex.split(" ".join(re.findall(r"^ENV (.+)$", stage, re.MULTILINE)))
    return dict(word.split("=", 1) for word in words)


def copies() -> list[tuple[list[str], str]]:
    """What the build stage copies from the repository, and to where."""
    return [(sources.split(), target) for sources, target in _COPY.findall(text())]


def copy_sources(folder: Path) -> None:
    """Put it into `folder`, as the build stage does."""
    for sources, target in copies():
        for source in sources:
            _copy(ROOT / source, folder / target / (source if target.endswith("/") else ""))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=_LEFT_OUT, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
