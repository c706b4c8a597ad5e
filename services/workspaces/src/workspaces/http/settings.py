"""Routes of the global settings: `/settings`."""

from fastapi import APIRouter

from workspaces.answers import SettingsView
from workspaces.handlers import global_settings
from workspaces.http.fields import SettingsChange
from workspaces.http.parts import Parts, Sender


def settings_router(parts: Parts) -> APIRouter:
    """The routes."""
    control = parts.control
    router = APIRouter(prefix="/settings", tags=["settings"])

    @router.get("")
    async def show() -> SettingsView:
        """The global settings."""
        return await global_settings.get_settings(control)

    @router.put("")
    async def change(body: SettingsChange, who: Sender) -> SettingsView:
        """Change the global settings. Those that are left out stay as they are."""
        return await global_settings.change_settings(control, who, body.model_dump(exclude_none=True))

    return router
