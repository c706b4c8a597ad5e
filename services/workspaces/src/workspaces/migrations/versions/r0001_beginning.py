"""The first version of the tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None

_UUID = sa.Uuid(as_uuid=False)
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create all tables."""
    _instances()
    _workspaces()
    _changes()
    _teams()
    _conversations()
    _messages()
    _access()


def _instances() -> None:
    op.create_table(
        "pallas_instances",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("registry_url", sa.Text(), nullable=False, unique=True),
        sa.Column("namespace", sa.Text()),
        _created(),
        sa.Column("agents", JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("unusable", JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("last_fetched_at", _TIME),
        sa.Column("last_fetch_error", sa.Text()),
        sa.Column("agent_token_encrypted", sa.Text()),
        sa.Column("team_jwt_encrypted", sa.Text()),
        sa.Column("jwt_made_at", _TIME),
        sa.Column("jwt_revealed_at", _TIME),
        sa.Column("pallas_team_mnemosyne_status", sa.Text()),
        sa.Column("status_reason", sa.Text()),
        sa.Column("status_at", _TIME),
        sa.Column("pushed_workspaces", ARRAY(sa.Text())),
        sa.Column("pushed_at", _TIME),
        sa.Column("believed", JSONB()),
        sa.CheckConstraint("pallas_team_mnemosyne_status in ('pending', 'provisioned', 'failed')", name="known_status"),
    )


def _workspaces() -> None:
    op.create_table(
        "workspaces",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        _created(),
    )
    op.create_table(
        "workspace_pallas_assignments",
        sa.Column("workspace_id", sa.Text(), sa.ForeignKey("workspaces.id", ondelete="CASCADE"), primary_key=True),
        sa.Column(
            "pallas_instance_id",
            sa.Text(),
            sa.ForeignKey("pallas_instances.id", ondelete="CASCADE"),
            primary_key=True,
            index=True,
        ),
        _created(),
    )
    op.create_table(
        "agent_connections",
        *(sa.Column(name, sa.Text(), primary_key=True) for name in ("workspace_id", "pallas_instance_id", "server_id")),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("icon", sa.Text()),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("vision", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("context_window", sa.Integer()),
        sa.Column("max_output_tokens", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["workspace_id", "pallas_instance_id"],
            ["workspace_pallas_assignments.workspace_id", "workspace_pallas_assignments.pallas_instance_id"],
            ondelete="CASCADE",
        ),
    )
    _key_values("settings")


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("kind", "action", "subject", "actor", "correlation")),
        sa.Column("data", JSONB(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
    )
    position = op.create_table(
        "relay_position",
        sa.Column("id", sa.Integer(), sa.CheckConstraint("id = 1", "one_row"), primary_key=True, autoincrement=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
    )
    op.bulk_insert(position, [{"id": 1, "sent": 0}])


def _teams() -> None:
    op.create_table(
        "mnemosyne_teams",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("deleted_at", _TIME),
        sa.Column("since", _TIME),
        sa.Column("revokes", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("changed", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("due_at", _TIME, server_default=sa.func.now(), index=True),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("correlation", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text()),
        sa.Column("claimed_until", _TIME),
    )


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column(
            "workspace_id", sa.Text(), sa.ForeignKey("workspaces.id", ondelete="CASCADE"), nullable=False, index=True
        ),
        sa.Column("title", sa.Text(), server_default=sa.text("''"), nullable=False),
        _created(),
        _created("updated_at"),
    )


def _messages() -> None:
    revisions = sa.Sequence("message_revisions")
    op.execute(sa.schema.CreateSequence(revisions))
    op.create_table(
        "messages",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column("conversation_id", _UUID, sa.ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=revisions.next_value(), nullable=False),
        _created(),
        sa.Column("ended_at", _TIME),
        *(
            sa.Column(name, sa.Text())
            for name in ("agent_instance_id", "agent_server_id", "agent_title", "key", "error_code", "error")
        ),
        sa.Column("turn_id", sa.Text()),
        *(sa.Column(name, JSONB()) for name in ("question", "answers")),
        sa.Column("remembers_from", sa.Integer()),
        sa.Column("images_from", sa.Integer()),
        sa.Column("owner", sa.Text()),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.UniqueConstraint("conversation_id", "seq"),
        sa.CheckConstraint("role in ('user', 'assistant')", name="known_role"),
        sa.CheckConstraint(
            "status in ('sending', 'asking', 'answered', 'failed', 'cancelled')", name="known_message_status"
        ),
    )
    unfinished = sa.text("status in ('sending', 'asking')")
    op.create_index("one_reply_at_a_time", "messages", ["conversation_id"], unique=True, postgresql_where=unfinished)
    op.create_index("changed_messages", "messages", ["conversation_id", "revision"])
    op.create_index("ix_messages_turn_id", "messages", ["turn_id"])
    op.create_table(
        "images",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column("message_id", _UUID, sa.ForeignKey("messages.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("mime_type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("octet_length(data) <= 5242880", name="image_size"),
    )


def _access() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        _created(),
        sa.Column("expires_at", _TIME, nullable=False),
    )
    op.create_table(
        "login_links",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )


def _key_values(name: str) -> None:
    op.create_table(name, sa.Column("key", sa.Text(), primary_key=True), sa.Column("value", JSONB(), nullable=False))


def _created(name: str = "created_at") -> sa.Column[object]:
    return sa.Column(name, _TIME, server_default=sa.func.now(), nullable=False)
