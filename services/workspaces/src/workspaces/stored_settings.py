"""The global settings: those of the environment, until they are changed in the console."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from workspaces.answers import SettingsView
from workspaces.settings import WorkspacesSettings
from workspaces.tables import Setting

_KEY = "global"
STORED_SETTINGS = select(Setting.value).where(Setting.key == _KEY)
"""What was changed in the console."""
HISTORY_SHARE, HISTORY_MESSAGES, HISTORY_BYTES = 0.7, 40, 200_000


def default_settings(settings: WorkspacesSettings) -> SettingsView:
    """The settings as long as nobody has changed them."""
    return SettingsView(
        health_interval=settings.health_interval,
        reconcile_interval=settings.reconcile_interval,
        history_share=HISTORY_SHARE,
        history_messages=HISTORY_MESSAGES,
        history_bytes=HISTORY_BYTES,
    )


async def stored_settings(session: AsyncSession, defaults: SettingsView) -> SettingsView:
    """The settings that hold now."""
    return settings_of(await session.scalar(STORED_SETTINGS), defaults)


def settings_of(stored: dict[str, Any] | None, defaults: SettingsView) -> SettingsView:
    """The settings, of which these are stored."""
    known = {name: value for name, value in (stored or {}).items() if name in SettingsView.model_fields}
    return SettingsView.model_validate({**defaults.model_dump(), **known})


async def store_settings(session: AsyncSession, changed: dict[str, Any]) -> None:
    """Store these settings, with the transaction of the session. The others stay as they are."""
    row = insert(Setting).values(key=_KEY, value=changed)
    merged = Setting.value.concat(row.excluded.value)
    await session.execute(row.on_conflict_do_update(index_elements=[Setting.key], set_={"value": merged}))
