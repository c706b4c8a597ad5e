"""The first version of the tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0001"
down_revision = None

_UUID = sa.Uuid(as_uuid=False)


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "libraries",
        sa.Column("uid", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text()),
    )
    _documents()
    position = op.create_table(
        "changes_position",
        sa.Column("id", sa.Integer(), sa.CheckConstraint("id = 1", "one_row"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
    )
    op.bulk_insert(position, [{"id": 1, "number": 0, "place": 0}])
    indexed = op.create_table(
        "indexed",
        sa.Column("id", sa.Integer(), sa.CheckConstraint("id = 1", "one_row"), primary_key=True, autoincrement=False),
        sa.Column("languages", sa.Text(), nullable=False),
    )
    op.bulk_insert(indexed, [{"id": 1, "languages": ""}])


def _documents() -> None:
    op.create_table(
        "documents",
        sa.Column("id", _UUID, primary_key=True),
        sa.Column("library_uid", sa.Text(), sa.ForeignKey("libraries.uid", ondelete="CASCADE"), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("collection", "path", "title", "media_type")),
        sa.Column("digest", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("size", "characters", "chunks")),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.UniqueConstraint("library_uid", "collection", "path", name="one_document_a_path"),
    )
    op.create_table(
        "chunks",
        sa.Column("document_id", _UUID, sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("library_uid", sa.Text(), nullable=False, index=True),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("heading", sa.Text(), nullable=False),
        sa.Column("page", sa.Integer()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", TSVECTOR(), nullable=False),
    )
    op.create_index("chunks_words", "chunks", ["words"], postgresql_using="gin")
