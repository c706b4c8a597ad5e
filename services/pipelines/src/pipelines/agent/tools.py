"""The tools of the agent (RFC-018, "MCP Tools"). Executions are run by `running`: their functions are never called."""

from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_executor.agent_runtime import Completed
from pallas_executor.functions.agent import FunctionAgent
from pallas_executor.functions.context import CallContext
from pipelines.agent import schemas
from pipelines.handlers.check_program import CheckProgram
from pipelines.handlers.list_modules import ListModules
from pipelines.running.outcomes import completed

_READS = {"readOnlyHint": True}


def add_checks(agent: FunctionAgent, programs: CheckProgram) -> None:
    """Register the tools that check programs."""

    @agent.tool(
        "validate",
        "Validate Constellation pipeline syntax, names and types. Reports all errors, with line and column.",
        input_schema=schemas.takes(("source",), source=schemas.SOURCE),
        output_schema=schemas.VALIDATED,
        annotations=_READS,
    )
    async def validate(ctx: CallContext, arguments: JsonObject) -> Completed:
        return completed(await programs.validate(arguments["source"], ctx.turn.principal))


def add_modules(agent: FunctionAgent, modules: ListModules) -> None:
    """Register the tools that list and describe modules."""

    @agent.tool(
        "list_modules",
        "List the modules that pipelines can call: tools of all agents, and the standard library.",
        input_schema=schemas.takes(
            tag={"type": "string", "description": "Filter by tag"},
            search={"type": "string", "description": "Search in name and description"},
        ),
        output_schema=schemas.MODULES,
        annotations=_READS,
    )
    async def list_modules(ctx: CallContext, arguments: JsonObject) -> Completed:
        found = modules.listed(ctx.turn.principal, arguments.get("tag"), arguments.get("search"))
        return completed({"modules": found})

    @agent.tool(
        "describe_module",
        "Get the schema and documentation of a module.",
        input_schema=schemas.takes(("name",), name={"type": "string", "description": "Module name"}),
        output_schema={"type": "object"},
        annotations=_READS,
    )
    async def describe_module(ctx: CallContext, arguments: JsonObject) -> Completed:
        return completed(modules.described(ctx.turn.principal, arguments["name"]))


def add_executions(agent: FunctionAgent) -> None:
    """Register the tools that execute pipelines."""
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
        agent.tool(name, description, input_schema=takes, output_schema=answers)(_elsewhere)


async def _elsewhere(ctx: CallContext, arguments: JsonObject) -> Any:
    raise AssertionError(f"{ctx.turn.tool} is executed by ConstellationRuntime")
