"""What the offline model does with a message in plain words: a few kinds of requests, with the tools that are at hand.

It understands no language. Everything else is answered with what the agent can do, and what to try.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_ai.tools import ToolDefinition

from pallas_contracts.agents import JsonObject

_LONGEST_READ = 2_000
"""A request begins within so many characters: the time to look for it grows with their square."""
_NUMBER = r"(?<![\d.])-?\d{1,15}(?:\.\d{1,15})?"
_LONGEST_TASK = 60.0


@dataclass(frozen=True, slots=True)
class _Request:
    """A kind of request: the tool that it takes, by its bare name, its arguments, and an example."""

    tool: str
    words: re.Pattern[str]
    arguments: Callable[[re.Match[str]], JsonObject]
    example: str


def _task(found: re.Match[str]) -> JsonObject:
    seconds = min(_LONGEST_TASK, float(found[1]))
    return {"seconds": seconds, "steps": max(1, round(seconds))}


_REQUESTS = (
    _Request(
        "add",
        re.compile(rf"({_NUMBER})\s*(?:\+|plus\b|and\b)\s*({_NUMBER})", re.IGNORECASE),
        lambda found: {"a": float(found[1]), "b": float(found[2])},
        "What is 19 + 23?",
    ),
    _Request(
        "long_task",
        re.compile(rf"\btask\b.*?({_NUMBER})\s*s", re.IGNORECASE),
        _task,
        "Run a task that takes 5 seconds",
    ),
    _Request(
        "search",
        re.compile(r"\b(?:search|find)\b.*?\b(?:for|about)\s+(.+)", re.IGNORECASE),
        lambda found: {"query": found[1].strip(" ?.!"), "limit": 3},
        "Search the library for workspaces",
    ),
    _Request(
        "look_up",
        re.compile(
            r"\bwhat\s+(?:is\s+|are\s+|does\s+)?(?:an?\s+|the\s+)?([a-z]+?)(?:\s+(?:is|means?))?\s*[?.!]*$",
            re.IGNORECASE,
        ),
        lambda found: {"term": found[1]},
        "What is a turn?",
    ),
)
"""The tools are those of the demo. An agent that has others of these names can be asked the same."""
_ASK = re.compile(r"\bask\s+(?:the\s+)?([\w-]+)(?:\s+agent)?[\s,:]+(?:to\s+|about\s+)?(.+)", re.IGNORECASE)
_TOLD = """\
I am the offline model: I need no key and no network, and I do not think. I understand a few kinds of requests, and \
carry them out with real agents and tools. Connect a real model to talk freely."""
_DIRECTIVES = (
    'A line such as `/tool NAME {"argument": 1}` calls a tool directly, and `/say TEXT` makes me say something.'
)


@dataclass(frozen=True, slots=True)
class Guided:
    """What is said, and the tool that is called then."""

    text: str
    tool: str | None = None
    arguments: JsonObject | None = None


def guide(message: str, tools: Sequence[ToolDefinition]) -> Guided:
    """What to do with a message in plain words, for an agent that has these tools."""
    agents, others = sub_agents(tools), _by_bare_name(tools)
    if (asked := _find(_ASK, message)) is not None and (agent := asked[1].lower()) in agents:
        return Guided(f"I ask `{agent}`.", agents[agent].name, {"message": asked[2].strip()})
    for request in _REQUESTS:
        found = _find(request.words, message)
        if found is not None and (tool := others.get(request.tool)) is not None:
            return Guided(f"I use the tool `{_shown(tool)}`.", tool.name, request.arguments(found))
    return Guided(_overview(agents, others))


def _find(words: re.Pattern[str], message: str) -> re.Match[str] | None:
    begin = words.search(message, 0, _LONGEST_READ)
    return words.match(message, begin.start()) if begin is not None else None


def sub_agents(tools: Sequence[ToolDefinition]) -> dict[str, ToolDefinition]:
    """The agents among the tools, by name: the tool of one is `NAME__NAME`."""
    halves = [(tool.name.partition("__"), tool) for tool in tools]
    return {first: tool for (first, _, second), tool in halves if first == second}


class _Passage(BaseModel):
    title: str
    text: str


class _Passages(BaseModel):
    """What a search of a library has found."""

    results: list[_Passage]


def readable(result: str) -> str:
    """A tool's result as a person reads it: passages that were found as quotes, everything else as it is."""
    try:
        found = _Passages.model_validate_json(result).results
    except ValidationError:
        return result
    quotes = (f"**{one.title}**\n\n> {' '.join(one.text.split())}" for one in found)
    return "\n\n".join(quotes) or "The library has nothing about that."


def _by_bare_name(tools: Sequence[ToolDefinition]) -> dict[str, ToolDefinition]:
    parts = [(tool.name.partition("__"), tool) for tool in tools]
    return {bare or server: tool for (server, _, bare), tool in parts if server != bare}


def _shown(tool: ToolDefinition) -> str:
    return tool.name.replace("__", "/", 1)


def _overview(agents: Mapping[str, ToolDefinition], others: Mapping[str, ToolDefinition]) -> str:
    first = next(iter(agents), None)
    examples = [request.example for request in _REQUESTS if request.tool in others]
    asked = [f"Ask {first} what a turn is"] if first is not None else []
    parts = [
        _TOLD,
        _list("Agents I can ask", [f"`{name}`: {_line(tool)}" for name, tool in agents.items()]),
        _list("Tools I can use", [f"`{_shown(tool)}`: {_line(tool)}" for tool in others.values()]),
        _list("Try", [*asked, *examples]),
        _DIRECTIVES,
    ]
    return "\n\n".join(part for part in parts if part)


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join((f"**{title}**", "", *(f"- {item}" for item in items))) if items else ""


def _line(tool: ToolDefinition) -> str:
    return next(iter((tool.description or "").strip().splitlines()), "") or "no description"
