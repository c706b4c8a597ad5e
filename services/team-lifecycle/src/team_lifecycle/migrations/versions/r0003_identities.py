"""A library has an identity beside its uid, which another library may get after it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the column. Libraries that are there have no identity: nobody was told of one."""
    op.add_column("libraries", sa.Column("identity", sa.Text()))
