"""The place in the stream of changes says of which stream: one that was lost is made anew."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nothing is known of the stream until now, so it is read from its beginning once."""
    op.add_column("changes_position", sa.Column("stream", sa.Text()))
