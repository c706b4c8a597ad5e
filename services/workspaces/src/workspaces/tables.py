"""The tables. Their history is in `migrations`."""

from collections.abc import Sequence as SequenceOf
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ColumnElement,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Sequence,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pallas_outbox.outbox import ChangeRow, PositionRow


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map: ClassVar = {
        str: Text(),
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
        list[str]: ARRAY(Text()),
    }


REVISIONS = Sequence("message_revisions", metadata=Base.metadata)
"""Every change of a message takes the next number, which is the id of its event in browsers."""


def _created() -> Mapped[datetime]:
    return mapped_column(server_default=func.now())


class Workspace(Base):
    """A workspace. It starts without attached teams."""

    __tablename__ = "workspaces"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    created_at: Mapped[datetime] = _created()


class PallasInstance(Base):
    """A registered registry, which is a team in Mnemosyne: both have this id (auth contract, section 4.2).

    `agents` and `unusable` are what the registry's document held when it was last fetched, at `last_fetched_at`.
    `pushed_workspaces` is the list that Mnemosyne confirmed last, and `believed` what it answered when asked last.
    """

    __tablename__ = "pallas_instances"
    __table_args__ = (
        CheckConstraint("pallas_team_mnemosyne_status in ('pending', 'provisioned', 'failed')", "known_status"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    registry_url: Mapped[str] = mapped_column(unique=True)
    namespace: Mapped[str | None]
    created_at: Mapped[datetime] = _created()
    agents: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"))
    unusable: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"))
    last_fetched_at: Mapped[datetime | None]
    last_fetch_error: Mapped[str | None]
    agent_token_encrypted: Mapped[str | None]
    team_jwt_encrypted: Mapped[str | None]
    jwt_made_at: Mapped[datetime | None]
    jwt_revealed_at: Mapped[datetime | None]
    pallas_team_mnemosyne_status: Mapped[str | None]
    status_reason: Mapped[str | None]
    status_at: Mapped[datetime | None]
    pushed_workspaces: Mapped[list[str] | None]
    pushed_at: Mapped[datetime | None]
    believed: Mapped[dict[str, Any] | None]


class Assignment(Base):
    """A team that is attached to a workspace (auth contract, section 4.2)."""

    __tablename__ = "workspace_pallas_assignments"
    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True)
    pallas_instance_id: Mapped[str] = mapped_column(
        ForeignKey("pallas_instances.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    created_at: Mapped[datetime] = _created()


WORKSPACE_IDS: ColumnElement[SequenceOf[str]] = func.array(
    select(Assignment.workspace_id)
    .where(Assignment.pallas_instance_id == PallasInstance.id)
    .order_by(Assignment.workspace_id)
    .scalar_subquery(),
    type_=ARRAY(Text),
)
"""In a query for instances: the workspaces that each is attached to, in order."""
INSTANCE_IDS: ColumnElement[SequenceOf[str]] = func.array(
    select(Assignment.pallas_instance_id)
    .where(Assignment.workspace_id == Workspace.id)
    .order_by(Assignment.pallas_instance_id)
    .scalar_subquery(),
    type_=ARRAY(Text),
)
"""In a query for workspaces: the instances that are attached to each, in order."""


class AgentConnection(Base):
    """An agent of an attached team, as the registry described it (interface contract, section 4)."""

    __tablename__ = "agent_connections"
    __table_args__ = (
        ForeignKeyConstraint(
            ["workspace_id", "pallas_instance_id"],
            ["workspace_pallas_assignments.workspace_id", "workspace_pallas_assignments.pallas_instance_id"],
            ondelete="CASCADE",
        ),
    )
    workspace_id: Mapped[str] = mapped_column(primary_key=True)
    pallas_instance_id: Mapped[str] = mapped_column(primary_key=True)
    server_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    title: Mapped[str]
    description: Mapped[str | None]
    icon: Mapped[str | None]
    url: Mapped[str]
    model: Mapped[str | None]
    vision: Mapped[bool] = mapped_column(server_default=text("false"))
    context_window: Mapped[int | None]
    max_output_tokens: Mapped[int | None]
    entry: Mapped[bool] = mapped_column(server_default=text("false"))
    starters: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))


class MnemosyneTeam(Base):
    """What the reconciler knows about the team of an instance. The row of a deleted instance stays: its id is used up.

    `since` is when the oldest change was made that Mnemosyne has not confirmed, or when it first could not be compared;
    None: nothing is known to differ. `revokes`: among these changes is one that takes a right away. `version` grows
    with each wake-up, and `changed` is that of the last change, whose `correlation` and `actor` these are. The team is
    compared next at `due_at`; None: when it is woken. Whoever has the `claim` compares it, until `claimed_until`; after
    that anybody may.
    """

    __tablename__ = "mnemosyne_teams"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(server_default=text("''"))
    deleted_at: Mapped[datetime | None]
    since: Mapped[datetime | None]
    revokes: Mapped[bool] = mapped_column(server_default=text("false"))
    version: Mapped[int] = mapped_column(server_default=text("1"))
    changed: Mapped[int] = mapped_column(server_default=text("1"))
    due_at: Mapped[datetime | None] = mapped_column(server_default=func.now(), index=True)
    tries: Mapped[int] = mapped_column(server_default=text("0"))
    error: Mapped[str | None]
    correlation: Mapped[str]
    actor: Mapped[str]
    claim: Mapped[str | None]
    claimed_until: Mapped[datetime | None]


class Change(ChangeRow, Base):
    """A change. Numbers have no gap. The table is the audit log and the outbox of events; rows are never deleted."""

    __tablename__ = "changes"


class RelayPosition(PositionRow, Base):
    """One row: the number of the last change that the broker has stored."""

    __tablename__ = "relay_position"


class Conversation(Base):
    """A conversation. The history of its turns is kept here and nowhere else (interface contract, section 2).

    A branch is a conversation that begins with a copy of the messages of another one, `branch_of`, before the message
    `branch_seq`. All branches have the first conversation as their `root_id`, and so has that one itself.
    """

    __tablename__ = "conversations"
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id", ondelete="CASCADE"), index=True)
    title: Mapped[str] = mapped_column(server_default=text("''"))
    created_at: Mapped[datetime] = _created()
    updated_at: Mapped[datetime] = _created()
    root_id: Mapped[str | None] = mapped_column(
        Uuid(as_uuid=False), ForeignKey("conversations.id", ondelete="CASCADE"), index=True
    )
    branch_of: Mapped[str | None] = mapped_column(Uuid(as_uuid=False))
    branch_seq: Mapped[int | None]


class ChatMessage(Base):
    """A message of a person (`user`), or the reply of an agent (`assistant`).

    `key` is the reply's idempotency key: the id of the message that it answers, or a new one after a retry. `owner` is
    the replica that calls the agent, as number@host. `question` is what the agent asks, with the names of
    its `fields` in order, since JSONB sorts keys. `answers` has what the person answered, by question. `remembers_from`
    is the `seq` of the oldest message that the agent was sent, `images_from` that of the oldest one that was sent with
    its images.
    """

    __tablename__ = "messages"
    __table_args__ = (
        UniqueConstraint("conversation_id", "seq"),
        CheckConstraint("role in ('user', 'assistant')", "known_role"),
        CheckConstraint("status in ('sending', 'asking', 'answered', 'failed', 'cancelled')", "known_message_status"),
        Index(
            "one_reply_at_a_time",
            "conversation_id",
            unique=True,
            postgresql_where=text("status in ('sending', 'asking')"),
        ),
        Index("changed_messages", "conversation_id", "revision"),
    )
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    seq: Mapped[int]
    role: Mapped[str]
    content: Mapped[str] = mapped_column(server_default=text("''"))
    status: Mapped[str]
    revision: Mapped[int] = mapped_column(BigInteger, REVISIONS, server_default=REVISIONS.next_value())
    created_at: Mapped[datetime] = _created()
    ended_at: Mapped[datetime | None]
    agent_instance_id: Mapped[str | None]
    agent_server_id: Mapped[str | None]
    agent_title: Mapped[str | None]
    key: Mapped[str | None]
    error_code: Mapped[str | None]
    error: Mapped[str | None]
    turn_id: Mapped[str | None] = mapped_column(index=True)
    question: Mapped[dict[str, Any] | None]
    answers: Mapped[dict[str, Any] | None]
    remembers_from: Mapped[int | None]
    images_from: Mapped[int | None]
    owner: Mapped[str | None]
    attempt: Mapped[int] = mapped_column(server_default=text("0"))


class Image(Base):
    """An image of a message, in the order of `position`."""

    __tablename__ = "images"
    __table_args__ = (CheckConstraint("octet_length(data) <= 5242880", "image_size"),)
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), index=True)
    position: Mapped[int]
    mime_type: Mapped[str]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class Setting(Base):
    """A global setting that was changed in the console."""

    __tablename__ = "settings"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]


class Session(Base):
    """A login. `digest` is the SHA-256 of the cookie, `csrf` what the page that has logged in knows besides.

    `password` is the digest of the password's hash at that time: a session ends when the password is changed. `address`
    and `browser` say where it was begun. `used_at` is set by the first request that knows `csrf`.
    """

    __tablename__ = "sessions"
    digest: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str]
    csrf: Mapped[str]
    created_at: Mapped[datetime] = _created()
    expires_at: Mapped[datetime]
    password: Mapped[str] = mapped_column(server_default=text("''"))
    address: Mapped[str] = mapped_column(server_default=text("''"))
    browser: Mapped[str] = mapped_column(server_default=text("''"))
    used_at: Mapped[datetime | None]


class LoginLink(Base):
    """A link that logs in once. `digest` is the SHA-256 of its token, `password` as that of a session.

    A used link is deleted.
    """

    __tablename__ = "login_links"
    digest: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str]
    expires_at: Mapped[datetime]
    password: Mapped[str] = mapped_column(server_default=text("''"))
