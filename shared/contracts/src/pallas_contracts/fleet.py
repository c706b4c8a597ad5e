"""Coding agents in workspaces of Coder, and their tasks (`fleet-mcp-tools.md`).

A workspace is known to exist only from Coder. What Coder does not know about an agent is here.
"""

from typing import Literal

from pydantic import Field

from pallas_contracts.bounds import Line, Moment, Name
from pallas_contracts.ids import Token
from pallas_contracts.message import Message

LONGEST_SPEC = 32_768
"""Characters of a specification."""

type TaskStatus = Literal["pending", "running", "completed", "failed", "stopped"]
type TaskSource = Literal["agent", "human", "ai_controller"]


class FleetTask(Message):
    """A task of an agent (KV bucket `fleet_tasks`, key `{workspace}.{number}`, once it has ended).

    `turn_id` is the turn that types it and watches it, `message` the id of its prompt in the agent's conversation.
    `reason` is why it has failed; `asks` is what the agent asked when it stopped working to wait for an answer.
    """

    turn_id: Token
    number: int
    agent: Line
    summary: Line
    status: TaskStatus
    source: TaskSource
    created_at: Moment
    started_at: Moment | None = None
    completed_at: Moment | None = None
    message: int | None = None
    reason: Line | None = None
    asks: Line | None = None


class FleetAgent(Message):
    """An agent by its name in lower case (KV bucket `fleet_agents`, key `{agent}`).

    `tasks` counts all tasks it has had. It has at most one that has not ended, `task`: whoever sets it by
    compare-and-set may type. `heard` is the id of the last message of the agent's conversation that belongs to a known
    task. An entry whose `workspace_id` is not that of the workspace of this name is of an agent that was deleted.
    `owner` is the caller who has made it, as `type:id` (`peer`: one without a bearer); None: nobody did here.
    """

    name: Name
    workspace_id: Token
    role: Line
    project: Line
    spec: str = Field(max_length=LONGEST_SPEC)
    created_at: Moment
    tasks: int = 0
    task: FleetTask | None = None
    heard: int = -1
    deleting: bool = False
    owner: Line | None = None
