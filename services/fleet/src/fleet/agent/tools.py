"""The tools of the agent (`fleet-mcp-tools.md`), in its order. Names of its later versions are aliases."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fleet.agent import schemas
from fleet.coder.client import Coder
from fleet.handlers.create_agent import CreateAgent
from fleet.handlers.delete_agent import DeleteAgent
from fleet.handlers.show import DEFAULT_SIZE, ShowAgent, ShowHistory, list_agents, list_projects, list_roles
from fleet.handlers.start_task import StartTask
from fleet.handlers.wait_task import DEFAULT, StopAgent, Transcript, WaitTask
from fleet.seeing.fleet import AGENT_URI, AGENTS_URI, TASK_URI, Fleet
from fleet.seeing.status import DEFAULT_ROLE
from pallas_contracts.agents import JsonObject
from pallas_contracts.data_agents import RPC_ERROR
from pallas_contracts.errors import Conflict, NotFound, PallasError, Rejected, Superseded
from pallas_contracts.turns import InputRequired, Principal, Result
from pallas_hosting.functions.agent import FunctionAgent
from pallas_hosting.functions.context import CallContext, ReadContext

_READS = {"readOnlyHint": True, "openWorldHint": True}
_MAKES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}
_DESTROYS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": True}

type _Run = Callable[[CallContext, JsonObject], Awaitable[JsonObject | InputRequired]]


@dataclass(frozen=True)
class Handlers:
    """What the tools do."""

    fleet: Fleet
    coder: Coder
    create: CreateAgent
    show: ShowAgent
    history: ShowHistory
    delete: DeleteAgent
    start: StartTask
    stop: StopAgent
    wait: WaitTask
    transcript: Transcript


def make_agent(handlers: Handlers, *, extras: bool) -> FunctionAgent:
    """The agent with its tools. `extras`: also those that are not in the contract."""
    agent, does = FunctionAgent(), handlers
    _add(
        agent,
        "create_agent",
        "Create a new coding agent in a Coder workspace. It begins with its specification at once.",
        (schemas.CREATE, schemas.CREATED, _MAKES),
        lambda ctx, given: does.create.create(
            ctx, given["name"], given["project"], given.get("role", DEFAULT_ROLE), given["spec"]
        ),
    )
    _add(
        agent,
        "list_agents",
        "List all agents in the fleet with their current status.",
        (schemas.NOTHING, schemas.LISTED, _READS),
        lambda ctx, given: list_agents(does.fleet, ctx.turn.principal),
    )
    _add(
        agent,
        "show_agent",
        "Show detailed information about a specific agent.",
        (schemas.AGENT_NAME, schemas.SHOWN, _READS),
        lambda ctx, given: does.show.show(given["agent_name"], ctx.turn.principal),
    )
    _add(
        agent,
        "show_agent_task_history",
        "Show paginated task history for an agent, the latest task first.",
        (schemas.HISTORY, schemas.HISTORY_PAGE, _READS),
        lambda ctx, given: does.history.show(
            given["agent_name"],
            ctx.turn.principal,
            int(given.get("page", 1)),
            int(given.get("page_size", DEFAULT_SIZE)),
        ),
        aliases=("show_task_history",),
    )
    _add(
        agent,
        "delete_agent",
        "Delete an agent and destroy its Coder workspace, also if it is busy.",
        (schemas.AGENT_NAME, schemas.DELETED, _DESTROYS),
        lambda ctx, given: does.delete.delete(ctx, given["agent_name"]),
    )
    _add(
        agent,
        "start_agent_task",
        "Start a new task on an agent. Returns when the agent has begun; the task goes on by itself.",
        (schemas.START, schemas.STARTED, _MAKES),
        lambda ctx, given: does.start.start(ctx.turn, given["agent_name"], given["task_description"]),
        aliases=("start_task",),
    )
    _add(
        agent,
        "stop_agent_task",
        "Stop the currently running task on an agent.",
        (schemas.AGENT_NAME, schemas.STOPPED, _DESTROYS),
        lambda ctx, given: does.stop.stop(given["agent_name"], ctx.turn.principal),
        aliases=("cancel_agent_task", "cancel_task"),
    )
    _add(
        agent,
        "list_agent_roles",
        "List all available agent roles for a specific project.",
        (schemas.PROJECT, schemas.ROLES, _READS),
        lambda ctx, given: list_roles(does.coder, given["project"]),
        aliases=("list_roles",),
    )
    _add(
        agent,
        "list_agent_projects",
        "List all available projects mapped to Coder templates.",
        (schemas.NOTHING, schemas.PROJECTS, _READS),
        lambda ctx, given: list_projects(does.coder),
        aliases=("list_projects",),
    )
    if extras:
        _add(
            agent,
            "wait_agent_task",
            "Wait until a task of an agent has ended, for at most 50 seconds. If the agent then asks something, the "
            "caller is asked, and what it answers is the agent's next task.",
            (schemas.WAIT, schemas.WAITED, _MAKES),
            lambda ctx, given: does.wait.wait(
                ctx.turn, given["agent_name"], given.get("task_id"), given.get("seconds", DEFAULT)
            ),
        )
    return agent


def _add(
    agent: FunctionAgent,
    name: str,
    description: str,
    forms: tuple[JsonObject, JsonObject, JsonObject],
    run: _Run,
    *,
    aliases: tuple[str, ...] = (),
) -> None:
    """Add a tool; `forms` are the schemas of its arguments and its answer, and its annotations."""

    async def call(ctx: CallContext, arguments: JsonObject) -> Result | InputRequired:
        try:
            schemas.check_given(takes, arguments)
            answer = await run(ctx, arguments)
        except Superseded:
            raise
        except PallasError as error:
            return error_result(error)
        if isinstance(answer, InputRequired):
            return answer
        text = json.dumps(answer, ensure_ascii=False)
        return Result(content=({"type": "text", "text": text},), structured=answer)

    takes, answers, hints = forms
    agent.tool(
        name,
        description,
        input_schema=takes,
        output_schema=answers,
        annotations=hints,
        aliases=aliases,
        checks_arguments=True,
    )(call)


type _Read = Callable[[Principal, dict[str, str]], Awaitable[JsonObject]]


def add_resources(agent: FunctionAgent, does: Handlers) -> None:
    """Add the resources."""
    _add_resource(
        agent,
        AGENTS_URI,
        "agents",
        "All agents, as list_agents shows them",
        lambda caller, _: list_agents(does.fleet, caller),
    )
    _add_resource(
        agent,
        AGENT_URI,
        "agent",
        "An agent, as show_agent shows it",
        lambda caller, given: _agent(does, caller, given["name"]),
    )
    _add_resource(
        agent,
        TASK_URI,
        "task",
        "A task with the messages of its agent's terminal, while they are there",
        lambda caller, given: _task(does, caller, given["id"]),
    )


async def _agent(does: Handlers, caller: Principal, name: str) -> JsonObject:
    shown = await does.show.show(name, caller)
    _check(AGENT_URI.format(name=name), AGENT_URI.format(name=shown["agent"]["name"]))
    return shown


async def _task(does: Handlers, caller: Principal, wanted: str) -> JsonObject:
    shown = await does.transcript.read(wanted, caller)
    _check(TASK_URI.format(id=wanted), TASK_URI.format(id=shown["task"]["id"]))
    return shown


def _check(asked: str, uri: str) -> None:
    if asked != uri:
        raise NotFound(f"There is no resource {asked}; it is {uri}.", uri=uri)


def _add_resource(agent: FunctionAgent, uri: str, name: str, description: str, read: _Read) -> None:
    async def answer(ctx: ReadContext, given: dict[str, str]) -> str:
        return json.dumps(await read(ctx.principal, given), ensure_ascii=False)

    agent.resource(uri, name, description, mime_type="application/json")(answer)


ERROR_META = "pallas/error"

_KINDS: tuple[tuple[type[PallasError], str, int, int], ...] = (
    (Rejected, "bad_request", 400, -32602),
    (NotFound, "not_found", 404, -32602),
    (Conflict, "conflict", 409, -32000),
    (PallasError, "service_unavailable", 503, -32001),
)
"""Word, status and code over JSON-RPC of each kind of error."""


def error_object(error: PallasError) -> JsonObject:
    """`{error, message, details}`; `details.status` is the status that the contract names."""
    word, status, _ = _kind(error)
    facts = {"peer_status" if name == "status" else name: value for name, value in error.facts.items()}
    known = {name: value for name, value in facts.items() if value is not None}
    return {"error": word, "message": error.message, "details": {"status": status, "code": error.code} | known}


def error_result(error: PallasError) -> Result:
    """The tool error."""
    text = json.dumps(error_object(error), ensure_ascii=False, default=str)
    told: JsonObject = json.loads(text)
    rpc = {"code": _kind(error)[2], "message": error.message, "data": told}
    return Result(content=({"type": "text", "text": text},), is_error=True, meta={ERROR_META: told, RPC_ERROR: rpc})


def _kind(error: PallasError) -> tuple[str, int, int]:
    return next((word, status, code) for kind, word, status, code in _KINDS if isinstance(error, kind))
