"""What the console shows besides: with which agents people begin, and what to try them with."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. Connections get theirs when the registry is fetched again."""
    op.add_column(
        "agent_connections", sa.Column("entry", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "agent_connections", sa.Column("starters", ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)
    )
