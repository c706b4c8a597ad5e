"""Resources: the documents of the language, which need no service, and what the service has."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from constellation_mcp.engine_types import with_language_types
from constellation_mcp.service import Service, ServiceError, segment
from constellation_mcp.tools import with_prefix
from pallas_cst import documents
from pallas_cst.resources import DRAWN, JSON, MARKDOWN, SCHEME


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
    ending = next((each for each in DRAWN if kind == "pipelines" and rest.endswith(each)), "")
    try:
        found = await service.get(caller, f"/{kind}/{segment(unquote(rest.removesuffix(ending)))}{ending}")
    except ServiceError as error:
        if error.status == 404:
            raise NotFound from None
        raise
    return Content(str(found), DRAWN[ending]) if ending else _json(found)


def _json(found: Any) -> Content:
    return Content(json.dumps(with_language_types(with_prefix(found)), ensure_ascii=False, indent=2), JSON)
