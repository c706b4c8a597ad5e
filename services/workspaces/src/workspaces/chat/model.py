"""What the parts of the chat hand to each other."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid5

from workspaces.agents.targets import Address
from workspaces.chat.choosing import Wanted
from workspaces.chat.history import Plan
from workspaces.chat.images import Picture
from workspaces.tables import ChatMessage

LEASE_SECONDS = 2.0
"""How long a replica holds a reply without saying so again."""
LEASE = timedelta(seconds=LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message of a person. Its id is chosen by the sender, so it can be sent again."""

    id: str
    text: str
    pictures: tuple[Picture, ...]
    wanted: Wanted

    @property
    def reply_id(self) -> str:
        """The id of the reply."""
        return str(uuid5(UUID(self.id), "reply"))


@dataclass(frozen=True, slots=True)
class Claim:
    """A reply that this replica calls an agent for. Nobody else writes it while `attempt` is its last one.

    `taken_over`: another replica has made this call, with this `key`. `answers` are those to the agent's questions, by
    question. `address` is where the agent was just found, and `arguments` what it is sent; None: that is to be read.
    """

    reply_id: str
    conversation_id: str
    seq: int
    key: str
    attempt: int
    instance_id: str
    server_id: str
    plan: Plan
    taken_over: bool = False
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    address: Address | None = None
    arguments: dict[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: ChatMessage, *, taken_over: bool) -> Self:
        """The claim on the reply in a row."""
        assert row.key is not None, "a reply has a key"
        return cls(
            reply_id=row.id,
            conversation_id=row.conversation_id,
            seq=row.seq,
            key=row.key,
            attempt=row.attempt,
            instance_id=row.agent_instance_id or "",
            server_id=row.agent_server_id or "",
            plan=Plan(row.remembers_from or row.seq - 1, row.images_from),
            taken_over=taken_over,
            answers=row.answers or {},
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How a reply has ended. `status` is `answered` or `failed`."""

    status: str
    content: str = ""
    error_code: str | None = None
    error: str | None = None
    turn_id: str | None = None
    pictures: tuple[Picture, ...] = ()
