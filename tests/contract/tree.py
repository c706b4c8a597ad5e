"""The repository as its contract tests see it: packages, their sources, and what those import."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Package:
    """One distribution of the workspace; `folder` holds its pyproject.toml and `src/{module}`."""

    folder: Path

    @cached_property
    def module(self) -> str:
        """The name it is imported by."""
        [found] = [path.parent.name for path in self.folder.glob("src/*/__init__.py")]
        return found

    @cached_property
    def declared(self) -> frozenset[str]:
        """Distribution names it depends on, with those of its extras, in normal form."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))["project"]
        wanted: list[str] = list(project.get("dependencies", []))
        for extra in project.get("optional-dependencies", {}).values():
            wanted += extra
        return frozenset(_name(requirement) for requirement in wanted)

    @property
    def is_service(self) -> bool:
        """Whether it is a service, and not shared."""
        return self.folder.parent.name == "services"

    def imports(self) -> Iterator[tuple[str, Path]]:
        """Every top-level module that its sources import, and where."""
        for path in sorted(self.folder.glob("src/**/*.py")):
            for name in imported(path):
                yield name, path.relative_to(ROOT)


def packages() -> list[Package]:
    """All distributions of the workspace."""
    folders = [*ROOT.glob("shared/*"), *ROOT.glob("services/*"), *ROOT.glob("clients/*"), ROOT / "cli", ROOT / "demo"]
    ours = sorted(folder for folder in folders if folder not in excluded())
    return [Package(folder) for folder in ours if (folder / "pyproject.toml").exists()]


@cache
def excluded() -> frozenset[Path]:
    """The folders of distributions that have a lock of their own, outside of the workspace."""
    uv = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]
    return frozenset(ROOT / folder for folder in uv["workspace"].get("exclude", ()))


@cache
def imported(path: Path) -> set[str]:
    """The top-level modules a file imports anywhere in it, relative imports left out."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def source_files(*folders: str) -> list[Path]:
    """The Python files below these folders of the repository, generated and installed ones left out."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if not {".venv", "node_modules", "__pycache__"} & set(path.parts)]


@cache
def tracked() -> frozenset[str]:
    """All files and folders of the repository, as git knows them, tracked or new, as paths from its root."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    folders = {str(parent) for path in listed for parent in Path(path).parents}
    return frozenset({*listed, *folders})


def _name(requirement: str) -> str:
    """`uvicorn[standard]>=0.54` is `uvicorn`."""
    letters = "".join(letter if letter.isalnum() or letter in "-_." else " " for letter in requirement)
    return letters.split()[0].lower().replace("_", "-").replace(".", "-")
