"""The resources of the agent (RFC-018, "MCP Resources"), and the completions of their addresses.

A name in an address may be percent-encoded, or written as it is: the name of a pipeline has a `:` and a `/`.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_cst import documents
from pallas_cst.resources import DRAWN, JSON, LISTED, MARKDOWN, SCHEME, TEMPLATES, completions
from pallas_executor.functions.agent import FunctionAgent
from pallas_executor.functions.context import ReadContext
from pipelines.agent.tools import Handlers
from pipelines.storing.history import MOST_IN_PAGE
from pipelines.storing.namespaces import Caller

type _Read = Callable[[Caller, str], Awaitable[str]]
"""Returns the text of a resource by the value of its template's variable, which is empty for one without."""

_EXECUTIONS = {
    "executions/{id}/dag.svg": ("Picture of an execution", "Its program as SVG, with states", DRAWN["/dag.svg"]),
    "executions/{id}": ("Execution", "An execution and the calls it made, with their states", JSON),
}


def add_resources(agent: FunctionAgent, handlers: Handlers) -> None:
    """Register the documents of the language, and what there is for each caller."""
    resources = _Resources(handlers)
    reads = resources.reads()
    for name in documents.names():
        _add(agent, handlers, f"docs/{name}", (documents.title(name), None, MARKDOWN), _document(name))
    for address, about in LISTED.items():
        _add(agent, handlers, address, (*about, JSON), reads[address])
    # Pictures come first: `{+ref}` has any characters.
    templates = {**_EXECUTIONS, **TEMPLATES}
    for address in sorted(templates, key=lambda each: "/dag." not in each):
        _add(agent, handlers, address, templates[address], reads[address])
        agent.completion(SCHEME + address)(_completer(handlers, resources.names_in(address)))


def _add(
    agent: FunctionAgent, handlers: Handlers, address: str, about: tuple[str, str | None, str], read: _Read
) -> None:
    name, description, mime_type = about

    async def answer(ctx: ReadContext, values: dict[str, str]) -> str:
        return await read(Caller.of(handlers.scopes, ctx.principal), next(iter(values.values()), ""))

    uri = SCHEME + address.replace("{ref}", "{+ref}")
    agent.resource(uri, name, description, mime_type=mime_type)(answer)


def _completer(
    handlers: Handlers, names: Callable[[Caller], Awaitable[Iterable[str]]]
) -> Callable[[ReadContext, str, str], Awaitable[list[str]]]:
    async def complete(ctx: ReadContext, argument: str, typed: str) -> list[str]:
        return completions(await names(Caller.of(handlers.scopes, ctx.principal)), typed)

    return complete


def _document(folder: str) -> _Read:
    """A document of a folder, or of a full name if its address has no variable."""

    async def read(_: Caller, name: str) -> str:
        wanted = f"{folder}{name}"
        if wanted not in documents.names():
            raise NotFound(f"There is no document {wanted!r}.", code="not_found")
        return documents.read(wanted)

    return read


@dataclass(frozen=True)
class _Resources:
    """The live resources."""

    handlers: Handlers

    def reads(self) -> dict[str, _Read]:
        """What reads each, by its address."""
        return {
            "modules": self._modules,
            "pipelines": self._pipelines,
            "executions": self._executions,
            "docs/examples/{name}": _document("examples/"),
            "docs/errors/{code}": _document("errors/"),
            "modules/{name}": self._module,
            "pipelines/{ref}": self._pipeline,
            "pipelines/{ref}/dag.mmd": self.handlers.views.mermaid,
            "pipelines/{ref}/dag.svg": self.handlers.views.svg,
            "executions/{id}": self._execution,
            "executions/{id}/dag.svg": self.handlers.executions.svg,
        }

    def names_in(self, address: str) -> Callable[[Caller], Awaitable[Iterable[str]]]:
        """What lists the values that a template's variable can have."""
        match address.partition("/{")[0]:
            case "docs/examples":
                return _always(documents.examples)
            case "docs/errors":
                return _always(documents.errors)
            case "modules":
                return self._module_names
            case "pipelines":
                return self._pipeline_names
            case _:
                return self._execution_ids

    async def _modules(self, caller: Caller, _: str) -> str:
        return _written({"modules": self.handlers.modules.documents(caller.principal)})

    async def _module(self, caller: Caller, name: str) -> str:
        return _written(self.handlers.modules.described(caller.principal, name))

    async def _pipelines(self, caller: Caller, _: str) -> str:
        return _written({"pipelines": self.handlers.pipelines.listed(caller)})

    async def _pipeline(self, caller: Caller, ref: str) -> str:
        return _written(await self.handlers.pipelines.described(caller, ref))

    async def _executions(self, caller: Caller, _: str) -> str:
        return _written(await self.handlers.executions.page(caller, limit=MOST_IN_PAGE))

    async def _execution(self, caller: Caller, execution_id: str) -> str:
        return _written(await self.handlers.executions.described(caller, execution_id))

    async def _module_names(self, caller: Caller) -> list[str]:
        return [str(each["name"]) for each in self.handlers.modules.documents(caller.principal)]

    async def _pipeline_names(self, caller: Caller) -> list[str]:
        return [str(each["name"]) for each in self.handlers.pipelines.listed(caller)]

    async def _execution_ids(self, caller: Caller) -> list[str]:
        page = await self.handlers.executions.page(caller, limit=MOST_IN_PAGE)
        return [str(each["executionId"]) for each in page["executions"]]


def _always(names: Callable[[], list[str]]) -> Callable[[Caller], Awaitable[list[str]]]:
    async def listed(_: Caller) -> list[str]:
        return names()

    return listed


def _written(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False, indent=2)
