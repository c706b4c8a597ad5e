"""The global settings."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from pallas_postgres.engine import reading
from workspaces.answers import SettingsView
from workspaces.changes.make import Decision
from workspaces.handlers.parts import Control
from workspaces.live.hub import ALL, WORK, Hub
from workspaces.model import Who
from workspaces.stored_settings import store_settings, stored_settings


async def get_settings(control: Control) -> SettingsView:
    """The settings that hold now."""
    async with reading(control.engine) as session:
        return await stored_settings(session, control.defaults)


async def change_settings(control: Control, who: Who, changed: dict[str, Any]) -> SettingsView:
    """Change these settings. All replicas hear of it."""

    async def change(session: AsyncSession) -> Decision[SettingsView]:
        before = await stored_settings(session, control.defaults)
        await store_settings(session, changed)
        after = await stored_settings(session, control.defaults)
        if before != after:
            await Hub.tell_in(session, WORK, "settings", {})
            await Hub.tell_in(session, ALL, "settings", {})
        return Decision(after)

    return await control.changes.make(who, change)
