"""The directives of the offline model, one per line of the user's message.

`plan` turns a message into steps. A step is one response of the model. It ends where tools are called, because the next
response needs their results.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Literal, cast

from pallas_contracts.agents import JsonObject

_LINE = re.compile(r"^/(tool|sleep|say|history|images|fail|parallel)(?:[ \t]+(.*))?$")


@dataclass(frozen=True, slots=True)
class Say:
    """Add this text to the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait, as a slow model would."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """Answer with the history or the images of the call."""

    what: Literal["history", "images"]


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the request to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class UseTool:
    """Call a tool; its result goes into the answer."""

    name: str
    arguments: JsonObject


type Action = Say | Sleep | Report | Fail


@dataclass(slots=True)
class Step:
    """The actions of one response, in order, and the tools that it then calls in parallel."""

    actions: list[Action] = field(default_factory=list[Action])
    tools: list[UseTool] = field(default_factory=list[UseTool])


def plan(message: str) -> list[Step]:
    """Return the steps of a message; the last one calls no tools. Lines without a directive are ignored.

    A message without any directive is answered with an echo of its first line.
    """
    lines = [found for line in message.splitlines() if (found := _LINE.match(line.strip()))]
    if not lines:
        first = next((line.strip() for line in message.splitlines() if line.strip()), "")
        return [Step([Say(f"Echo: {first}")])]
    steps = [Step()]
    parallel = False
    for line in lines:
        word, rest = line[1], (line[2] or "").strip()
        directive = None if word == "parallel" else _read(word, rest)
        if isinstance(directive, UseTool):
            steps[-1].tools.append(directive)
            if not parallel:
                steps.append(Step())
            continue
        if steps[-1].tools:
            steps.append(Step())
        parallel = directive is None
        if directive is not None:
            steps[-1].actions.append(directive)
    if steps[-1].tools:
        steps.append(Step())
    return steps


def _read(word: str, rest: str) -> Action | UseTool:
    match word:
        case "tool":
            return _read_tool(rest)
        case "sleep":
            return _read_sleep(rest)
        case "history" | "images":
            return Report(word)
        case "fail":
            return Fail(rest or "as asked")
        case _:
            return Say(rest)


def _read_tool(rest: str) -> Action | UseTool:
    name, _, text = rest.partition(" ")
    try:
        arguments: object = json.loads(text) if text.strip() else {}
    except ValueError:
        arguments = None
    if not name or not isinstance(arguments, dict):
        return Say(f"/tool takes a name and a JSON object, not {rest!r}")
    return UseTool(name, cast("JsonObject", arguments))


def _read_sleep(rest: str) -> Action:
    try:
        return Sleep(max(0.0, float(rest)))
    except ValueError:
        return Say(f"/sleep takes a number of seconds, not {rest!r}")
