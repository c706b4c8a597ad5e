"""The position in the stream of changes is stored with the stream's time of creation: a lost stream begins anew."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column. It is empty at first, so the stream is read once from its beginning."""
    op.add_column("changes_position", sa.Column("stream", sa.Text()))
