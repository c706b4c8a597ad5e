"""What can be counted by reading: files, lines, imports, and what imports reach."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PRODUCT = ("services", "shared", "cli", "clients", "deploy")
_SMALL = 30


def size() -> dict[str, str]:
    """The figures, by what they say."""
    product, tests = list(_python(*_PRODUCT)), list(_python("tests"))
    lines = {path: path.read_text("utf-8").count("\n") for path in (*product, *tests)}
    of_product = sum(lines[path] for path in product)
    imports = sum(_import_lines(path) for path in product)
    small = [path for path in product if lines[path] < _SMALL]
    empty = [path for path in small if not lines[path]]
    return {
        "product, lines of Python": f"{of_product:,}",
        "product, files": f"{len(product):,}",
        "lines of imports": f"{imports / of_product:.1%}",
        f"files under {_SMALL} lines that are not empty": f"{len(small) - len(empty)}",
        "empty files": f"{len(empty)}",
        "tests, lines": f"{sum(lines[path] for path in tests):,}",
    }


def _python(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"node_modules", ".venv", "__pycache__"} & set(path.parts):
                yield path


def _import_lines(path: Path) -> int:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    found = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)


def reached(files: Iterable[Path]) -> set[Path]:
    """The product's files that these import, and those that they import, and so on; the given ones included."""
    modules, found, left = _modules(), set[Path](), list(files)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += [modules[name] for name in _imported(path) if name in modules]
    return found


@cache
def _modules() -> dict[str, Path]:
    """The product's files by the name they are imported by."""
    found = dict[str, Path]()
    for path in _python(*_PRODUCT):
        if "src" in path.parts:
            parts = path.parts[path.parts.index("src") + 1 :]
            found[".".join(parts).removesuffix(".py").removesuffix(".__init__")] = path
    return found


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{name.name}" for name in names)
            case _:
                pass
