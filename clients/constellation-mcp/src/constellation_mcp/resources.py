"""Resources: the documents of the language, which need no service, and what the service has."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from constellation_mcp.service import Service, ServiceError, segment
from constellation_mcp.tools import with_prefix
from pallas_cst import documents

SCHEME = "constellation://"
MARKDOWN, JSON = "text/markdown", "application/json"

LISTED = {
    "modules": ("Modules", "All modules that you may call"),
    "pipelines": ("Pipelines", "Stored pipelines: your own and shared ones"),
    "executions": ("Executions", "Your past executions, the latest first"),
}
TEMPLATES = {
    "docs/examples/{name}": ("Example", "A program of the cookbook, with inputs and outputs", MARKDOWN),
    "docs/errors/{code}": ("Error code", "What an error code means, and how to mend it", MARKDOWN),
    "modules/{name}": ("Module", "Signature, description and version of a module", JSON),
    "pipelines/{ref}": ("Pipeline", "Inputs and outputs of a stored pipeline", JSON),
    "pipelines/{ref}/dag.mmd": ("Graph of a pipeline", "Its graph as a Mermaid flowchart", "text/vnd.mermaid"),
    "pipelines/{ref}/dag.svg": ("Picture of a pipeline", "Its graph as SVG", "image/svg+xml"),
}
_DRAWN = {"/dag.mmd": "text/vnd.mermaid", "/dag.svg": "image/svg+xml"}


class NotFound(Exception):
    """There is no such resource."""


@dataclass(frozen=True, slots=True)
class Content:
    """A resource that was read. `bundled`: it is part of this program."""

    text: str
    mime_type: str
    bundled: bool = False


async def read(service: Service, caller: str, uri: str) -> Content:
    """The resource at an address. Names in it may be percent-encoded, or written as they are.

    Raises:
        NotFound: there is none.
        ServiceError: the service does not give it.
    """
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME):
        raise NotFound
    if kind == "docs":
        if unquote(rest) not in documents.names():
            raise NotFound
        return Content(documents.read(unquote(rest)), MARKDOWN, bundled=True)
    if kind == "executions" and not rest:
        return _json(await service.get(caller, "/history", keep=False))
    if kind not in ("modules", "pipelines"):
        raise NotFound
    if not rest:
        return _json(await service.get(caller, f"/{kind}"))
    ending = next((each for each in _DRAWN if kind == "pipelines" and rest.endswith(each)), "")
    try:
        found = await service.get(caller, f"/{kind}/{segment(unquote(rest.removesuffix(ending)))}{ending}")
    except ServiceError as error:
        if error.status == 404:
            raise NotFound from None
        raise
    return Content(str(found), _DRAWN[ending]) if ending else _json(found)


def _json(found: Any) -> Content:
    return Content(json.dumps(with_prefix(found), ensure_ascii=False, indent=2), JSON)
