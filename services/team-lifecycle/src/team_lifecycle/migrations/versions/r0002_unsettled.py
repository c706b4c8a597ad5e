"""The table of pending look-ups: those that a change has invalidated and that are not known to be refreshed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "unsettled",
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("keys", JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.clock_timestamp(), nullable=False),
    )
