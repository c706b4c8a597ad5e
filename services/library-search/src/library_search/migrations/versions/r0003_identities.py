"""A library has an identity in addition to its uid, because a uid can be used again after its library is deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column. Existing libraries have no identity, neither here nor in team-lifecycle."""
    op.add_column("libraries", sa.Column("identity", sa.Text()))
