"""The tools of the agent (RFC-018, "MCP Tools"). Executions are run by `running`: their functions are never called."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_contracts.turns import Result
from pallas_cst.resources import matching
from pallas_hosting.functions.agent import FunctionAgent
from pallas_hosting.functions.context import CallContext
from pallas_turns.runtime import Completed
from pipelines.agent import schemas
from pipelines.handlers.keep_pipelines import KeepPipelines
from pipelines.handlers.list_executions import ListExecutions
from pipelines.handlers.views import ListModules, ViewPipelines, validate
from pipelines.programs import Compiler
from pipelines.running.children import completed
from pipelines.storing.history import MOST_IN_PAGE
from pipelines.storing.namespaces import Caller
from pipelines.storing.scopes import Scopes

_READS = {"readOnlyHint": True}
_CALLS_TOOLS = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
_ADDS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
_REMOVES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}

type _Run = Callable[[Caller, JsonObject], JsonObject | Awaitable[JsonObject]]


@dataclass(frozen=True)
class Handlers:
    """What the agent offers."""

    scopes: Scopes
    compiler: Compiler
    modules: ListModules
    pipelines: KeepPipelines
    views: ViewPipelines
    executions: ListExecutions


def add_tools(agent: FunctionAgent, handlers: Handlers) -> None:
    """Register all tools, in the order in which they are listed."""
    add = _Adding(agent, handlers.scopes)
    source = {"source": schemas.SOURCE}
    add(
        "validate",
        "Validate Constellation pipeline syntax, names and types. Reports all errors, with line and column.",
        schemas.takes(("source",), **source),
        schemas.VALIDATED,
        _READS,
        lambda caller, given: validate(handlers.compiler, given["source"], caller.principal),
    )
    add(
        "compile",
        "Compile pipeline to executable DAG. With a name it is stored; without one it can be executed for a day by its "
        "structuralHash.",
        schemas.takes(("source",), **source, name=schemas.text("Optional name for cold storage")),
        schemas.COMPILED,
        _ADDS,
        lambda caller, given: handlers.pipelines.compile(caller, given["source"], given.get("name")),
    )
    _add_executions(agent)
    add(
        "list_modules",
        "List the modules that pipelines can call: tools of all agents, and the standard library.",
        schemas.takes(tag=schemas.text("Filter by tag"), search=schemas.text("Search in name and description")),
        schemas.MODULES,
        _READS,
        lambda caller, given: {
            "modules": matching(handlers.modules.documents(caller.principal), given.get("tag"), given.get("search"))
        },
    )
    add(
        "describe_module",
        "Get the schema and documentation of a module.",
        schemas.takes(("name",), name=schemas.text("Module name")),
        schemas.MODULE,
        _READS,
        lambda caller, given: handlers.modules.described(caller.principal, given["name"]),
    )
    add(
        "diff",
        "Compare two pipelines: what was added, removed and changed.",
        schemas.takes(
            ("left", "right"),
            left=schemas.text("The older pipeline: a reference or its source", LONGEST_SOURCE),
            right=schemas.text("The newer pipeline: a reference or its source", LONGEST_SOURCE),
        ),
        schemas.DIFFERENCE,
        _READS,
        lambda caller, given: handlers.views.diff(caller, given["left"], given["right"]),
    )
    add(
        "history",
        "List your executions, the latest first.",
        schemas.takes(
            limit={"type": "integer", "minimum": 1, "maximum": MOST_IN_PAGE, "description": "How many at most"},
            cursor=schemas.text("Where an earlier list ended"),
            agent=schemas.text("Only those that were requested with this label (X-Constellation-Agent)"),
        ),
        schemas.HISTORY,
        _READS,
        lambda caller, given: handlers.executions.page(caller, **given),
    )
    add(
        "list_pipelines",
        "List stored pipelines: your own and shared ones, with the types of their inputs and outputs.",
        schemas.takes(namespace=schemas.text("Only this namespace, such as shared")),
        schemas.PIPELINES,
        _READS,
        lambda caller, given: {"pipelines": handlers.pipelines.listed(caller, given.get("namespace"))},
    )
    add(
        "publish",
        "Make a stored pipeline a tool of the agent pipelines/published, which others can call with their own rights.",
        schemas.takes(
            ("ref", "name"),
            ref=schemas.REF,
            name=schemas.text("Name of the tool", 64),
            description=schemas.text("What the tool does, for those who call it", 2000),
        ),
        schemas.PUBLISHED,
        _ADDS,
        lambda caller, given: handlers.pipelines.publish(
            caller, given["ref"], given["name"], given.get("description", "")
        ),
    )
    add(
        "unpublish",
        "Remove the tool of a published pipeline. The pipeline stays.",
        schemas.takes(("ref",), ref=schemas.REF),
        schemas.UNPUBLISHED,
        _REMOVES,
        lambda caller, given: handlers.pipelines.unpublish(caller, given["ref"]),
    )
    add(
        "delete_pipeline",
        "Delete a stored pipeline with all its versions.",
        schemas.takes(("ref",), ref=schemas.REF),
        schemas.DELETED,
        _REMOVES,
        lambda caller, given: handlers.pipelines.delete(caller, given["ref"]),
    )


@dataclass(frozen=True)
class _Adding:
    """Registers tools whose functions get the caller. Every caller needs the scope `read`; handlers may want more."""

    agent: FunctionAgent
    scopes: Scopes

    def __call__(
        self, name: str, description: str, takes: JsonObject, answers: JsonObject, hints: JsonObject, run: _Run
    ) -> None:
        async def call(ctx: CallContext, arguments: JsonObject) -> Completed:
            answer = run(Caller.of(self.scopes, ctx.turn.principal, ctx.turn.correlation), arguments)
            return _answered(await answer if isawaitable(answer) else answer)

        self.agent.tool(name, description, input_schema=takes, output_schema=answers, annotations=hints)(call)


def _answered(answer: JsonObject) -> Completed:
    """An answer. One without success is an error, so that a model mends it."""
    result = completed(answer).result
    failed = answer.get("success") is False
    return Completed(Result(content=result.content, structured=result.structured, is_error=failed))


def _add_executions(agent: FunctionAgent) -> None:
    source = {"source": schemas.SOURCE, "ref": schemas.REF}
    for name, description, takes, answers in (
        (
            "execute",
            "Execute a Constellation pipeline: give its source, or the reference of a stored one.",
            schemas.takes(
                ("inputs",),
                **source,
                inputs=schemas.INPUTS,
                on_missing={
                    "type": "string",
                    "enum": ["suspend", "ask"],
                    "description": "What to do without some inputs: compute what is possible, or ask your user",
                },
                dry_run={"type": "boolean", "description": "Only say what would be called"},
            ),
            schemas.EXECUTED,
        ),
        (
            "resume",
            "Go on with an execution that was suspended because inputs were missing.",
            schemas.takes(
                ("executionId",), executionId={"type": "string", "maxLength": 64}, additionalInputs=schemas.INPUTS
            ),
            schemas.EXECUTED,
        ),
        (
            "batch_execute",
            "Execute one pipeline for many inputs. The answer has a result for each, in their order.",
            schemas.takes(
                ("inputs",),
                **source,
                inputs={"type": "array", "items": schemas.INPUTS, "minItems": 1, "maxItems": schemas.MOST_ITEMS},
                concurrency={"type": "integer", "minimum": 1, "maximum": 64, "description": "Items at a time"},
            ),
            schemas.BATCH,
        ),
    ):
        agent.tool(name, description, input_schema=takes, output_schema=answers, annotations=_CALLS_TOOLS)(_elsewhere)


async def _elsewhere(ctx: CallContext, arguments: JsonObject) -> Any:
    raise AssertionError(f"{ctx.turn.tool} is executed by ConstellationRuntime")
