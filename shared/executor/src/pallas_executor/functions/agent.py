"""`FunctionAgent`: the tools, prompts, resources and completions of an agent written in Python.

Functions are registered while their module is imported, in a thread without an event loop.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pallas_contracts.agents import JsonObject, PromptDefinition, ResourceDefinition, ToolDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import InputRequired, Result
from pallas_executor.agent_runtime import Completed, Failed, NeedsInput
from pallas_executor.functions.context import CallContext, ReadContext
from pallas_executor.functions.templates import UriTemplate

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
