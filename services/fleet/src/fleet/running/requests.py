"""The turns of tasks: their requests, and how they get into the queue."""

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.content.claim_checks import offload_request
from pallas_bus.turnlog.queue import submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import FLEET_TASKS_AGENT, FLEET_TEAM
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.message import Message, utc_now
from pallas_contracts.turns import ClientContext, Principal, TurnRequested

RUN_TASK = "run_task"
FLEET = Principal(type="peer", id="fleet")
"""Who makes the turns of tasks that were found."""

_NO_CLIENT = ClientContext(protocol_version="")
SUBMIT_SECONDS = 10.0
"""For how long a broker may be away while a task begins."""


class RunTask(Message):
    """The arguments of a task's turn. Without a `description` there is nothing to type: the agent works already.

    `new`: its workspace is starting.
    """

    agent: str
    workspace_id: str
    description: str | None = None
    new: bool = False


def task_ref(turn_id: str) -> TurnRef:
    """The identity of a task's turn."""
    return TurnRef(FLEET_TEAM, FLEET_TASKS_AGENT, turn_id)


def task_request(
    agent: FleetAgent,
    description: str | None = None,
    *,
    principal: Principal = FLEET,
    client: ClientContext = _NO_CLIENT,
    parent: str | None = None,
    depth: int = 0,
    new: bool = False,
) -> TurnRequested:
    """The turn of the task that an agent has. `parent` is the turn that starts it; `new`: the agent is to start."""
    assert agent.task is not None
    given = RunTask(agent=agent.name, workspace_id=agent.workspace_id, description=description, new=new)
    return TurnRequested(
        turn_id=agent.task.turn_id,
        team=FLEET_TEAM,
        agent=FLEET_TASKS_AGENT,
        tool=RUN_TASK,
        arguments=given.model_dump(),
        principal=principal,
        parent=parent,
        depth=depth,
        client=client.model_copy(update={"progress": False, "log_level": None}),
        requested_at=utc_now(),
    )


async def submit_task(bus: Bus, request: TurnRequested) -> None:
    """Put the turn of a task into its queue. To do so again is no error.

    Raises:
        Unavailable: the broker does not answer.
    """
    light = await offload_request(bus, request)
    await retry_while_unavailable(lambda: submit(bus, light), "submit the task", deadline=SUBMIT_SECONDS)
