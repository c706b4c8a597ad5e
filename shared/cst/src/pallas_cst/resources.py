"""What an MCP server offers of the language and of pipelines (RFC-018, "MCP Resources"): addresses and descriptions."""

from collections.abc import Iterable, Mapping
from typing import Any

SCHEME = "constellation://"
MARKDOWN, JSON = "text/markdown", "application/json"

LISTED = {
    "modules": ("Modules", "All modules that you may call"),
    "pipelines": ("Pipelines", "Stored pipelines: your own and shared ones"),
    "executions": ("Executions", "Your past executions, the latest first"),
}
"""Name and description of each live resource, by its address without the scheme. They are JSON."""

DRAWN = {"/dag.mmd": "text/vnd.mermaid", "/dag.svg": "image/svg+xml"}
"""The types of pictures by the ends of their addresses."""

TEMPLATES = {
    "docs/examples/{name}": ("Example", "A program of the cookbook, with inputs and outputs", MARKDOWN),
    "docs/errors/{code}": ("Error code", "What an error code means, and how to mend it", MARKDOWN),
    "modules/{name}": ("Module", "Signature, description and version of a module", JSON),
    "pipelines/{ref}": ("Pipeline", "Inputs and outputs of a stored pipeline", JSON),
    "pipelines/{ref}/dag.mmd": ("Graph of a pipeline", "Its graph as a Mermaid flowchart", DRAWN["/dag.mmd"]),
    "pipelines/{ref}/dag.svg": ("Picture of a pipeline", "Its graph as SVG", DRAWN["/dag.svg"]),
}
"""Name, description and type of each template, by its address without the scheme."""


def completions(known: Iterable[str], typed: str) -> list[str]:
    """The names that begin with what was typed, then those that have it elsewhere. Case does not count."""
    wanted = typed.casefold()
    found = [name for name in known if wanted in name.casefold()]
    return sorted(found, key=lambda name: not name.casefold().startswith(wanted))


def matching[M: Mapping[str, Any]](modules: Iterable[M], tag: str | None, search: str | None) -> list[M]:
    """The modules, given as documents, that have a tag, and a text in their name or description (`list_modules`)."""
    wanted = (search or "").casefold()
    return [
        module
        for module in modules
        if (tag is None or tag in module.get("tags", ()))
        and wanted in f"{module.get('name', '')}\n{module.get('description', '')}".casefold()
    ]
