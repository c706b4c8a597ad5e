"""Valid messages for tests, which name only the fields that matter to them."""

import uuid
from typing import Any, Literal

from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.contract import Bucket, Stream, Template
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import Message, utc_now
from pallas_contracts.turns import ClientContext, TurnError, TurnOutcome, TurnRequested

MODERN = "2026-07-28"
"""The revision that test callers claim to speak."""


def turn_requested(
    team: str, agent: str = "harper", *, tool: str | None = None, arguments: dict[str, Any] | None = None
) -> TurnRequested:
    """A call of the agent's own tool (or of `tool`)."""
    return TurnRequested(
        turn_id=new_turn_id(),
        team=team,
        agent=agent,
        tool=tool or agent,
        arguments={"message": "hello"} if arguments is None else arguments,
        client=ClientContext(protocol_version=MODERN, progress=True),
        requested_at=utc_now(),
    )


def turn_outcome(
    request: TurnRequested,
    *,
    attempt: int = 1,
    events: int = 0,
    status: Literal["completed", "failed", "cancelled", "input_required"] = "completed",
    code: TurnError | None = None,
) -> TurnOutcome:
    return TurnOutcome(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        attempt=attempt,
        status=status,
        code=code,
        events=events,
        requested_at=request.requested_at,
        ended_at=utc_now(),
    )


def agent_definition(team: str, agent: str = "harper", **fields: Any) -> AgentDefinition:
    """An agent with one tool of its own name."""
    return AgentDefinition.model_validate(
        {
            "team": team,
            "agent": agent,
            "title": agent.title(),
            "tools": (ToolDefinition(name=agent),),
            "updated_at": utc_now(),
            **fields,
        }
    )


def a_stream(
    *,
    owner: str = "tester",
    refuse_when_full: bool = False,
    max_per_subject: int | None = None,
    live: str | None = None,
) -> Stream:
    """A stream that no other test uses, on subjects that differ in their last part (`subject_of`)."""
    token = f"t{uuid.uuid4().hex[:12]}"
    return Stream(
        token.upper(),
        (f"pallas.v1.{token}.*",),
        "tester",
        "of a test",
        refuse_when_full=refuse_when_full,
        max_per_subject=max_per_subject,
    )


def subject_of(stream: Stream, last: str = "x") -> str:
    return stream.subjects[0].replace("*", last)


def a_bucket[M: Message](message: type[M], *, owner: str = "tester", ttl: float | None = None) -> Bucket[M]:
    """A bucket that no other test uses, with keys of one part."""
    name = f"t{uuid.uuid4().hex[:12]}"
    return Bucket(name, Template("{key}"), message, owner, (owner,), (owner,), "of a test", ttl)
