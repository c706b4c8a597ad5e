"""What expressions of a Python module are, as far as it is known without running it: literals, names and paths."""

import ast
from pathlib import Path

_SAME = ("resolve", "absolute", "abspath", "realpath", "expanduser", "str", "fspath", "Path")
"""Calls that give the same file."""


def dotted(node: ast.AST) -> str:
    """`a.b.c`; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr) if owner := dotted(value):
            return f"{owner}.{attr}"
        case _:
            return ""


class Known:
    """Reads expressions of a module: literals, names that it gives such at its top, and paths that are made of them."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._path = path
        self._named: dict[str, ast.expr] = {}
        for node in tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    self._named[name] = value
                case _:
                    pass

    def value(self, node: ast.expr) -> object:
        """The value; None if it is not known. Names are followed, also in lists."""
        match node:
            case ast.Name(id=name) if isinstance(found := self._named.get(name), ast.Constant | ast.List | ast.Tuple):
                return self.value(found)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.value(item) for item in items]
            case ast.Constant(value=value):
                return value
            case _:
                return None

    def path(self, node: ast.expr, depth: int = 0) -> Path | None:
        """A path, against the working directory if it is relative; None if it is not known."""
        again = depth + 1
        match node:
            case _ if depth > 20:
                return None
            case ast.Constant(value=str(text)):
                return Path(text)
            case ast.Name(id="__file__"):
                return self._path.absolute()
            case ast.Name(id=name) if name in self._named:
                return self.path(self._named[name], again)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined([left, right], again)
            case ast.Attribute(value=value, attr="parent"):
                found = self.path(value, again)
                return found and found.parent
            case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(number))):
                found = self.path(value, again)
                return found.parents[number] if found and 0 <= number < len(found.parents) else None
            case ast.Call(func=function, args=arguments):
                return self._called(function, arguments, again)
            case _:
                return None

    def _called(self, function: ast.expr, arguments: list[ast.expr], depth: int) -> Path | None:
        name = function.attr if isinstance(function, ast.Attribute) else dotted(function)
        match name, arguments:
            case "cwd" | "getcwd", []:
                return Path()
            case "dirname", [one]:
                found = self.path(one, depth)
                return found and found.parent
            case "join" | "joinpath" | "Path" | "PurePath", [_, *_]:
                owner = [function.value] if name == "joinpath" and isinstance(function, ast.Attribute) else []
                return self._joined([*owner, *arguments], depth)
            case _ if name in _SAME and arguments:
                return self.path(arguments[0], depth)
            case _ if name in _SAME and isinstance(function, ast.Attribute):
                return self.path(function.value, depth)
            case _:
                return None

    def _joined(self, parts: list[ast.expr], depth: int) -> Path | None:
        found = [self.path(part, depth) for part in parts]
        known = [each for each in found if each is not None]
        return Path(*known) if len(known) == len(found) else None
