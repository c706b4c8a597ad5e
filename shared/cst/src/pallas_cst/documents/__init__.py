"""The documents of the language, as Markdown: for people, for MCP resources, for prompts.

A document has a name such as `type-system`, `examples/order-total` or `errors/E010`, and its title in the first line.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_FOLDERS = ("", "examples", "errors")


@cache
def _documents() -> dict[str, Traversable]:
    found = dict[str, Traversable]()
    for folder in _FOLDERS:
        for each in sorted(files(__name__).joinpath(folder).iterdir(), key=lambda each: each.name):
            if each.name.endswith(".md"):
                found[f"{folder}/{each.name}".strip("/").removesuffix(".md")] = each
    return found


def names() -> list[str]:
    """The names of all documents."""
    return list(_documents())


def examples() -> list[str]:
    """The names of the programs in the cookbook: `examples/{name}`."""
    return [name.removeprefix("examples/") for name in names() if name.startswith("examples/")]


def errors() -> list[str]:
    """The codes that have a page: `errors/{code}`."""
    return [name.removeprefix("errors/") for name in names() if name.startswith("errors/")]


@cache
def read(name: str) -> str:
    """The text of a document.

    Raises:
        KeyError: there is no document of this name.
    """
    return _documents()[name].read_text("utf-8")


def title(name: str) -> str:
    """The title of a document.

    Raises:
        KeyError: there is no document of this name.
    """
    return read(name).partition("\n")[0].removeprefix("# ")
