"""Sessions and links belong to a password, and say where they were begun. Those that were begun before have ended."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns."""
    for table, names in (("sessions", ("password", "address", "browser")), ("login_links", ("password",))):
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text(), server_default=sa.text("''"), nullable=False))
    op.add_column("sessions", sa.Column("used_at", sa.DateTime(timezone=True)))
