"""The fields of a question in the order in which the agent names them: JSONB sorts them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Keep questions as they came. What an older replica writes meanwhile is converted."""
    op.alter_column("messages", "question", type_=sa.JSON(), postgresql_using="question::json")
