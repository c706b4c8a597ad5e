"""Published pipelines: the agent `pipelines/published` has a tool for each."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from pallas_contracts.agents import AgentDefinition, Limits, ToolDefinition
from pallas_contracts.bounds import reason_of
from pallas_contracts.catalog import PIPELINES_TEAM, PUBLISHED
from pallas_contracts.errors import Conflict, Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import Publication, StoredPipeline, UsedModule
from pallas_cst import types as t
from pallas_cst.faults import Code
from pallas_cst.json_schema import object_schema
from pallas_cst.signatures import BadSignature, read_type
from pallas_cst.types import RESERVED

MOST_PUBLISHED = 500
"""Tools of the agent."""

_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MODULES = f"{PIPELINES_TEAM}.{PUBLISHED}."
type _Types = tuple[tuple[str, str], ...]

LIMITS = Limits(turn_timeout=3600.0, max_attempts=100)
"""An execution goes on after any number of lost processes; what it called is not called again."""


def check_tool_name(tool: str) -> None:
    """Check that a tool may have this name, which is also its name in the language.

    Raises:
        Rejected: it may not (`bad_tool`).
    """
    if not _TOOL.fullmatch(tool) or tool in RESERVED or tool == "get_health":
        raise Rejected(
            "The name of a tool has 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-', does not begin with a digit "
            "or '-', and is no reserved word.",
            code="bad_tool",
        )


def by_tool(entries: Iterable[StoredPipeline]) -> dict[str, StoredPipeline]:
    """The published pipelines by the name of their tool. Of two with the same name it is the one that was first."""
    found = dict[str, StoredPipeline]()
    for publication, entry in sorted(
        ((entry.published, entry) for entry in entries if entry.published is not None),
        key=lambda each: (each[0].at, each[1].name),
    ):
        found.setdefault(publication.tool, entry)
    return found


def check_published(entry: StoredPipeline, published: Iterable[StoredPipeline], *, largest: int) -> None:
    """Check that a pipeline that is to be published can be, beside those that are. Others are not looked at.

    Raises:
        Rejected: it calls itself (`E031`), or its types are too large for a tool (`bad_tool`).
        Conflict: there are too many tools (`too_many`), they have more than `largest` bytes, or another pipeline has
            the tool's name (`tool_taken`).
    """
    if entry.published is None:
        return
    tool = entry.published.tool
    others = {name: each for name, each in by_tool(published).items() if each.name != entry.name}
    if tool in others:
        raise Conflict(f"Another published pipeline is called {tool!r}.", code="tool_taken")
    if len(others) >= MOST_PUBLISHED:
        raise Conflict(f"{MOST_PUBLISHED} pipelines are published already.", code="too_many")
    _check_circles(entry, tool, others)
    try:
        tool_of(entry, entry.published)
    except ValidationError as error:
        raise Rejected(f"The pipeline cannot be a tool: {reason_of(error)}", code="bad_tool") from None
    if len(published_definition([*others.values(), entry]).model_dump_json()) > largest:
        raise Conflict("The published pipelines have too many or too large types.", code="too_many")


def _check_circles(entry: StoredPipeline, tool: str, others: Mapping[str, StoredPipeline]) -> None:
    used = {name: _tools_in(each.modules) for name, each in others.items()} | {tool: _tools_in(entry.modules)}
    if way := _way(used, tool):
        calls = " -> ".join(way)
        raise Rejected(f"{Code.CIRCULAR}: published pipelines call each other in a circle: {calls}", code=Code.CIRCULAR)


def _tools_in(modules: Iterable[UsedModule]) -> list[str]:
    return [module.name.removeprefix(_MODULES) for module in modules if module.name.startswith(_MODULES)]


def _way(used: Mapping[str, list[str]], start: str) -> list[str] | None:
    """A way from a tool to itself."""
    seen, ways = set[str](), [[start, tool] for tool in used[start]]
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, tool] for tool in used.get(way[-1], ())]
    return None


def tool_of(entry: StoredPipeline, publication: Publication) -> ToolDefinition:
    """The tool of a published pipeline.

    Raises:
        ValidationError: its types are too large for a definition.
    """
    inputs, outputs = tuple(entry.inputs.items()), tuple(entry.outputs.items())
    return _tool(publication.tool, publication.description, inputs, outputs)


def published_definition(entries: Iterable[StoredPipeline]) -> AgentDefinition:
    """The definition of the agent: a tool for each of the published pipelines among `entries`, at most 500."""
    tools = list[ToolDefinition]()
    for entry in by_tool(entries).values():
        with suppress(ValidationError):  # one that a release with other bounds has published
            tools += [tool_of(entry, entry.published)] if entry.published is not None else []
    return AgentDefinition(
        team=PIPELINES_TEAM,
        agent=PUBLISHED,
        kind="pipeline",
        title="Published pipelines",
        description="Pipelines that callers have published, each as a tool.",
        version="1.0.0",
        tools=tuple(sorted(tools[:MOST_PUBLISHED], key=lambda tool: tool.name)),
        limits=LIMITS,
        retry="safe",
        updated_at=utc_now(),
    )


@lru_cache(2 * MOST_PUBLISHED)
def _tool(name: str, description: str, inputs: _Types, outputs: _Types) -> ToolDefinition:
    given, made = _schema(inputs), _schema(outputs)
    return ToolDefinition(name=name, description=description, input_schema=given, output_schema=made)


def _schema(types: _Types) -> dict[str, Any]:
    return object_schema({name: _type(written) for name, written in types})


def _type(written: str) -> t.Type:
    """A type; any JSON if it cannot be read."""
    try:
        return read_type(written)
    except BadSignature:
        return t.JSON
