"""What the console shows besides: agents to begin with, what to try them with, and branches of conversations."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. Connections get theirs when the registry is fetched again."""
    root = sa.ForeignKey("conversations.id", ondelete="CASCADE")
    op.add_column("conversations", sa.Column("root_id", sa.Uuid(as_uuid=False), root))
    op.add_column("conversations", sa.Column("branch_of", sa.Uuid(as_uuid=False)))
    op.add_column("conversations", sa.Column("branch_seq", sa.Integer()))
    op.create_index("ix_conversations_root_id", "conversations", ["root_id"])
    op.add_column(
        "agent_connections", sa.Column("entry", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "agent_connections", sa.Column("starters", ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)
    )
