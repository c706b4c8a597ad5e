"""What the parts of the chat hand to each other."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast
from uuid import UUID, uuid5

from workspaces.agents.targets import Address
from workspaces.chat.choosing import Wanted
from workspaces.chat.history import Plan
from workspaces.chat.images import Picture
from workspaces.tables import ChatMessage

INTERRUPTED = "interrupted"
"""The code of a reply whose caller was lost, of an agent that cannot be asked for the same answer again."""

type Called = Literal["never", "here", "elsewhere", "long ago"]
"""Whether another replica has made a call: one of this host or of another, or so long ago that its key is forgotten."""


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

    `called`: whether another replica may have made this call, with this `key`. `answers` are those to the agent's
    questions, by question. `address` is where the agent was just found, and `arguments` what it is sent; None: that is
    to be read.
    """

    reply_id: str
    conversation_id: str
    seq: int
    key: str
    attempt: int
    instance_id: str
    server_id: str
    plan: Plan
    called: Called = "never"
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    address: Address | None = None
    arguments: dict[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: ChatMessage, *, called: Called = "never") -> Self:
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
            called=called,
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


def clean_text(text: str) -> str:
    """Text of an agent as Postgres can store it: U+FFFD for NUL and for halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def clean(value: Any) -> Any:
    """A JSON value with such texts only."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(str(name)): clean(one) for name, one in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [clean(one) for one in cast("list[Any]", value)]
        case _:
            return value
