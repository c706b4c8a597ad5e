"""`FunctionAgent`: the tools, prompts, resources and completions of an agent written in Python.

Functions are registered while their module is imported, in a thread without an event loop.
"""

import asyncio
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from pallas_contracts.agents import JsonObject, PromptDefinition, ResourceDefinition, ToolDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import InputRequired, Result
from pallas_hosting.functions.context import CallContext, ReadContext
from pallas_turns.runtime import Completed, Failed, NeedsInput

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class UriTemplate:
    """A URI with variables; one without any matches only itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables = tuple(name for _, name in _VARIABLE.findall(text))
        self._pattern = re.compile(_pattern(text))

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables in `uri`, or None when it is not of this template."""
        found = self._pattern.fullmatch(uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


def _pattern(text: str) -> str:
    parts: list[str] = []
    end = 0
    for variable in _VARIABLE.finditer(text):
        parts.append(re.escape(text[end : variable.start()]))
        parts.append(f"(?P<{variable[2]}>{'.+' if variable[1] else '[^/?#]+'})")
        end = variable.end()
    return "".join([*parts, re.escape(text[end:])])


type Answer = str | Result | InputRequired | Completed | Failed | NeedsInput
"""A string is a result with one text block."""

type ToolFunction = Callable[[CallContext, JsonObject], Awaitable[Answer]]
type PromptFunction = Callable[[ReadContext, dict[str, str]], Awaitable[str | Sequence[JsonObject] | JsonObject]]
"""Returns a text (one user message), the MCP messages, or the whole MCP result."""

type ResourceFunction = Callable[[ReadContext, dict[str, str]], Awaitable[str | bytes | JsonObject]]
"""Gets the values of the template's variables. Returns text, bytes, or the whole MCP result."""

type CompletionFunction = Callable[[ReadContext, str, str], Awaitable[Sequence[str]]]
"""Gets the name of an argument and the text typed so far; returns completions. `ctx.params` has the reference."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool and its function."""

    definition: ToolDefinition
    call: ToolFunction


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and its function."""

    definition: PromptDefinition
    get: PromptFunction


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource or resource template and its function."""

    definition: ResourceDefinition
    template: UriTemplate
    read: ResourceFunction


@dataclass(frozen=True, slots=True)
class Completer:
    """The function that completes arguments of one prompt or resource template."""

    reference: str
    complete: CompletionFunction


class FunctionAgent:
    """Collects tools, prompts, resources and completions. Put one into the module of an agent, as `agent`."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.prompts: dict[str, Prompt] = {}
        self.resources: dict[str, Resource] = {}
        self.completers: dict[str, Completer] = {}

    def tool(
        self,
        name: str,
        description: str = "",
        *,
        title: str | None = None,
        input_schema: JsonObject | None = None,
        output_schema: JsonObject | None = None,
        annotations: JsonObject | None = None,
        meta: JsonObject | None = None,
        icons: Sequence[JsonObject] = (),
        aliases: Sequence[str] = (),
        correlation: str | None = None,
        checks_arguments: bool = False,
    ) -> Callable[[ToolFunction], ToolFunction]:
        """Register a tool. Its arguments are validated against `input_schema`; without one it takes none.

        One that `checks_arguments` gets any object, and has to refuse what it cannot take.

        Raises:
            Rejected: the name is taken.
        """
        definition = ToolDefinition(
            name=name,
            title=title,
            description=description,
            input_schema=input_schema or {"type": "object", "properties": {}},
            output_schema=output_schema,
            annotations=annotations,
            meta=meta,
            icons=tuple(icons),
            aliases=tuple(aliases),
            correlation=correlation,
            checks_arguments=checks_arguments,
        )

        def register(function: ToolFunction) -> ToolFunction:
            _add(self.tools, name, Tool(definition, function), "tool")
            return function

        return register

    def prompt(
        self,
        name: str,
        description: str | None = None,
        *,
        title: str | None = None,
        arguments: Sequence[JsonObject] = (),
    ) -> Callable[[PromptFunction], PromptFunction]:
        """Register a prompt. `arguments` are MCP's prompt arguments (`name`, `description`, `required`)."""
        definition = PromptDefinition(name=name, title=title, description=description, arguments=tuple(arguments))

        def register(function: PromptFunction) -> PromptFunction:
            _add(self.prompts, name, Prompt(definition, function), "prompt")
            return function

        return register

    def resource(
        self,
        uri: str,
        name: str,
        description: str | None = None,
        *,
        title: str | None = None,
        mime_type: str | None = None,
    ) -> Callable[[ResourceFunction], ResourceFunction]:
        """Register a resource, or a template when `uri` has variables in braces, as in `note://{id}/text`."""
        template = UriTemplate(uri)
        definition = ResourceDefinition(
            uri=uri,
            name=name,
            title=title,
            description=description,
            mime_type=mime_type,
            template=bool(template.variables),
        )

        def register(function: ResourceFunction) -> ResourceFunction:
            _add(self.resources, uri, Resource(definition, template, function), "resource")
            return function

        return register

    def completion(self, reference: str) -> Callable[[CompletionFunction], CompletionFunction]:
        """Register the completions of a prompt (by its name) or a resource template (by its URI)."""

        def register(function: CompletionFunction) -> CompletionFunction:
            _add(self.completers, reference, Completer(reference, function), "completion")
            return function

        return register


def _add(known: dict[str, Any], name: str, what: object, kind: str) -> None:
    if name in known:
        raise Rejected(f"the {kind} {name!r} is registered twice")
    known[name] = what


async def load_function_agent(team: str, agent: str, module: Path | str | None) -> FunctionAgent:
    """Import the module and return its `agent`.

    The import runs in a daemon thread: a slow import delays no heartbeats and no turns, and one that never ends does
    not keep the process from ending.

    A file is imported under a unique module name, so that teams may have files of the same name, and again each time,
    so that a changed folder brings changed code. An `__init__.py` is the package of the files beside it.

    Raises:
        Rejected: there is no module, or it has no `agent`.
        Exception: whatever the module raises when it is imported.
    """
    loaded: Future[FunctionAgent] = Future()
    loaded.set_running_or_notify_cancel()

    def load() -> None:
        try:
            loaded.set_result(_load(team, agent, module))
        except BaseException as error:  # noqa: BLE001 - raised again by `wrap_future`
            wanted_end = Rejected(f"its module could not be loaded: {type(error).__name__}")
            loaded.set_exception(error if isinstance(error, Exception) else wanted_end)

    threading.Thread(target=load, name=f"import {team}.{agent}", daemon=True).start()
    return await asyncio.wrap_future(loaded)


def _load(team: str, agent: str, module: Path | str | None) -> FunctionAgent:
    if module is None:
        raise Rejected(f"agent {agent!r} has no module")
    loaded = _load_file(f"pallas_team_{team}_{agent}", module) if isinstance(module, Path) else _load_name(module)
    found = getattr(loaded, "agent", None)
    if not isinstance(found, FunctionAgent):
        raise Rejected(f"the module of agent {agent!r} has no FunctionAgent called 'agent'")
    return found


def _load_name(name: str) -> ModuleType:
    return importlib.import_module(name)


def _load_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Rejected(f"{path.name!r} is no Python file")
    for submodule in [known for known in sys.modules if known.startswith(f"{name}.")]:
        del sys.modules[submodule]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
