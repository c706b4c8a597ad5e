"""Ends the replies that agents were being called for when a backup was made.

Whether an agent was called since is not known, so nobody calls it again: a person decides, as after a lost connection.
"""

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from workspaces.chat.leases import INTERRUPTED
from workspaces.chat.views import RUNNING
from workspaces.tables import REVISIONS, ChatMessage

_WHY = (
    "This conversation was restored from a backup. The agent was being called when the backup was made, and may have "
    "done what it was asked. Check before you retry."
)


async def end_restored_replies(session: AsyncSession) -> None:
    """End all replies that are under way as interrupted."""
    ended = {"status": "failed", "error_code": INTERRUPTED, "error": _WHY, "ended_at": func.now()}
    free = {"owner": None, "leased_until": None, "progress": None, "question": None}
    running = update(ChatMessage).where(ChatMessage.status.in_(RUNNING))
    await session.execute(
        running.values(**ended, **free, revision=REVISIONS.next_value()),
        execution_options={"synchronize_session": False},
    )
