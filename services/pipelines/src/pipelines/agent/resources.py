"""The resources and prompts of the agent (RFC-018, "MCP Resources"), and the completions of their addresses.

A name in an address may be percent-encoded, or written as it is: the name of a pipeline has a `:` and a `/`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import isawaitable

from pallas_contracts.agents import AgentDefinition, JsonObject, ResourceDefinition
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM
from pallas_contracts.errors import NotFound
from pallas_contracts.message import utc_now
from pallas_cst import documents, prompts
from pallas_cst.resources import DRAWN, JSON, LISTED, MARKDOWN, SCHEME, TEMPLATES, completions
from pallas_hosting.functions.agent import FunctionAgent
from pallas_hosting.functions.context import ReadContext
from pipelines.agent.tools import Handlers, add_tools
from pipelines.storing.history import MOST_IN_PAGE
from pipelines.storing.namespaces import Caller
from pipelines.storing.publishing import LIMITS

type _Read = Callable[[Caller, str], str | JsonObject | Awaitable[str | JsonObject]]
"""Returns a text or JSON by the value of its template's variable, which is empty for one without."""

type _Names = Callable[[Caller], Iterable[str] | Awaitable[Iterable[str]]]
"""Lists the values that a template's variable can have."""

_EXECUTIONS = {
    "executions/{id}/dag.svg": ("Picture of an execution", "Its program as SVG, with states", DRAWN["/dag.svg"]),
    "executions/{id}": ("Execution", "An execution and the calls it made, with their states", JSON),
}


def add_resources(agent: FunctionAgent, handlers: Handlers) -> None:
    """Register the documents of the language, and what there is for each caller."""
    reads = _reads(handlers)
    for name in documents.names():
        _add(agent, handlers, f"docs/{name}", (documents.title(name), None, MARKDOWN), _document(name))
    for address, about in LISTED.items():
        _add(agent, handlers, address, (*about, JSON), reads[address])
    # Pictures come first: `{+ref}` has any characters.
    templates = {**_EXECUTIONS, **TEMPLATES}
    for address in sorted(templates, key=lambda each: "/dag." not in each):
        _add(agent, handlers, address, templates[address], reads[address])
        agent.completion(SCHEME + address)(_completer(handlers, _names_in(handlers, address)))


def _add(
    agent: FunctionAgent, handlers: Handlers, address: str, about: tuple[str, str | None, str], read: _Read
) -> None:
    name, description, mime_type = about

    async def answer(ctx: ReadContext, values: dict[str, str]) -> str:
        found = read(Caller.of(handlers.scopes, ctx.principal), next(iter(values.values()), ""))
        found = await found if isawaitable(found) else found
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, indent=2)

    uri = SCHEME + address.replace("{ref}", "{+ref}")
    agent.resource(uri, name, description, mime_type=mime_type)(answer)


def _completer(handlers: Handlers, names: _Names) -> Callable[[ReadContext, str, str], Awaitable[list[str]]]:
    async def complete(ctx: ReadContext, argument: str, typed: str) -> list[str]:
        known = names(Caller.of(handlers.scopes, ctx.principal))
        return completions(await known if isawaitable(known) else known, typed)

    return complete


def _document(folder: str) -> _Read:
    """A document of a folder, or of a full name if its address has no variable."""

    def read(_: Caller, name: str) -> str:
        wanted = f"{folder}{name}"
        if wanted not in documents.names():
            raise NotFound(f"There is no document {wanted!r}.", code="not_found")
        return documents.read(wanted)

    return read


def _reads(handlers: Handlers) -> dict[str, _Read]:
    """What reads each live resource and each template, by its address."""
    modules, pipelines, executions = handlers.modules, handlers.pipelines, handlers.executions
    return {
        "modules": lambda caller, _: {"modules": modules.documents(caller.principal)},
        "pipelines": lambda caller, _: {"pipelines": pipelines.listed(caller)},
        "executions": lambda caller, _: executions.page(caller, limit=MOST_IN_PAGE),
        "docs/examples/{name}": _document("examples/"),
        "docs/errors/{code}": _document("errors/"),
        "modules/{name}": lambda caller, name: modules.described(caller.principal, name),
        "pipelines/{ref}": pipelines.described,
        "pipelines/{ref}/dag.mmd": handlers.views.mermaid,
        "pipelines/{ref}/dag.svg": handlers.views.svg,
        "executions/{id}": executions.described,
        "executions/{id}/dag.svg": executions.svg,
    }


def _names_in(handlers: Handlers, address: str) -> _Names:
    match address.partition("/{")[0]:
        case "docs/examples":
            return lambda _: documents.examples()
        case "docs/errors":
            return lambda _: documents.errors()
        case "modules":
            return lambda caller: [each["name"] for each in handlers.modules.documents(caller.principal)]
        case "pipelines":
            return lambda caller: [each["name"] for each in handlers.pipelines.listed(caller)]
        case _:
            return partial(_execution_ids, handlers)


async def _execution_ids(handlers: Handlers, caller: Caller) -> list[str]:
    page = await handlers.executions.page(caller, limit=MOST_IN_PAGE)
    return [each["executionId"] for each in page["executions"]]


def add_prompts(agent: FunctionAgent, handlers: Handlers) -> None:
    """Register both prompts, and the completions of an error's code."""

    async def write(ctx: ReadContext, given: dict[str, str]) -> str:
        caller = Caller.of(handlers.scopes, ctx.principal)
        modules = prompts.modules_text(handlers.modules.documents(caller.principal))
        return prompts.write_pipeline(given["goal"], given.get("available_inputs"), modules)

    async def debug(ctx: ReadContext, given: dict[str, str]) -> str:
        return prompts.debug_pipeline(given["source"], given["error"])

    for name, get in ((prompts.WRITE, write), (prompts.DEBUG, debug)):
        description, arguments = prompts.PROMPTS[name]
        described = [
            {"name": each.name, "description": each.description, "required": each.required} for each in arguments
        ]
        agent.prompt(name, description, arguments=described)(get)

    @agent.completion(prompts.DEBUG)
    async def complete(ctx: ReadContext, argument: str, typed: str) -> list[str]:
        return completions(documents.errors(), typed) if argument == "error" else []


def make_agent(handlers: Handlers) -> FunctionAgent:
    """The agent with everything that it offers, in the order in which it is listed."""
    agent = FunctionAgent()
    add_tools(agent, handlers)
    add_resources(agent, handlers)
    add_prompts(agent, handlers)
    return agent


def definition_of(agent: FunctionAgent) -> AgentDefinition:
    """The definition; its revision is set when it is published."""
    return AgentDefinition(
        team=PIPELINES_TEAM,
        agent=CONSTELLATION,
        kind="pipeline",
        title="Constellation",
        description="Checks, stores and executes pipelines: typed programs whose modules are the tools of all agents.",
        version="1.0.0",
        tools=tuple(tool.definition for tool in agent.tools.values()),
        prompts=tuple(prompt.definition for prompt in agent.prompts.values()),
        resources=tuple(_listed(resource.definition) for resource in agent.resources.values()),
        completes=bool(agent.completers),
        limits=LIMITS,
        retry="safe",
        updated_at=utc_now(),
    )


def _listed(resource: ResourceDefinition) -> ResourceDefinition:
    """A template as RFC-018 has it. What is read matches `{+ref}`, so a `/` need not be encoded."""
    return resource.model_copy(update={"uri": resource.uri.replace("{+", "{")})
