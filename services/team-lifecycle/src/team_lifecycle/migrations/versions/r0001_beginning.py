"""The first version of the tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

_UUID = sa.Uuid(as_uuid=False)
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create all tables."""
    _teams()
    _libraries()
    _tokens()
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.Text(), primary_key=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("algorithm", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text()),
        sa.Column("public", sa.Text()),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("retired_at", _TIME),
        _created(),
        sa.CheckConstraint("not (current and (retired_at is not null or purpose <> 'team'))", "current_signs"),
    )
    op.create_index("one_current_key", "signing_keys", ["purpose"], unique=True, postgresql_where=sa.text("current"))
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
        "teams",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("active_jti", sa.Text()),
        _created(),
        sa.Column("updated_at", _TIME, server_default=sa.func.now(), nullable=False),
    )
    op.create_table(
        "team_workspaces",
        sa.Column("team_id", _UUID, sa.ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("workspace_id", sa.Text(), primary_key=True, index=True),
        _created(),
    )


def _libraries() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        _created(),
    )
    op.create_table(
        "libraries",
        sa.Column("uid", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), index=True),
        _created(),
    )
    op.create_table(
        "memberships",
        sa.Column("library_uid", sa.Text(), sa.ForeignKey("libraries.uid", ondelete="CASCADE"), primary_key=True),
        sa.Column("user_name", sa.Text(), sa.ForeignKey("users.name"), primary_key=True, index=True),
        sa.Column(
            "role", sa.Text(), sa.CheckConstraint("role in ('owner', 'manager', 'reader')", "a_role"), primary_key=True
        ),
        _created(),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column("digest", sa.Text(), nullable=False, unique=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), sa.ForeignKey("users.name"), nullable=False, index=True),
        sa.Column("expires_at", _TIME),
        sa.Column("revoked_at", _TIME),
        _created(),
    )
    op.create_table(
        "token_libraries",
        sa.Column("token_id", _UUID, sa.ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
        sa.Column(
            "library_uid",
            sa.Text(),
            sa.ForeignKey("libraries.uid", ondelete="CASCADE"),
            primary_key=True,
            index=True,
        ),
    )


def _created() -> sa.Column[object]:
    return sa.Column("created_at", _TIME, server_default=sa.func.now(), nullable=False)
