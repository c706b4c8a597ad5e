"""Routes of administration: instances (auth contract, section 9), workspaces, deliveries, settings, agents."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from workspaces.answers import (
    AgentStatuses,
    Attached,
    Deliveries,
    Instances,
    InstanceView,
    Passages,
    Picker,
    Revealed,
    SettingsView,
    WorkspaceLibraries,
    WorkspaceList,
    WorkspaceView,
)
from workspaces.handlers import instances, workspaces
from workspaces.handlers.control import change_settings, get_settings
from workspaces.handlers.libraries import Libraries
from workspaces.handlers.views import list_deliveries
from workspaces.http.fields import (
    AttachedIds,
    InstanceChange,
    InstanceId,
    NewInstance,
    NewWorkspace,
    PlainId,
    SettingsChange,
    Words,
    WorkspaceChange,
    WorkspaceId,
)
from workspaces.http.parts import Parts, Sender

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""An SVG may be a page with scripts. None of them runs, and it loads nothing."""


def instances_router(parts: Parts) -> APIRouter:
    """Registered instances: `/pallas`."""
    control = parts.control
    router = APIRouter(prefix="/pallas", tags=["instances"])

    @router.get("")
    async def list_instances() -> Instances:
        """All registered instances, by name."""
        return Instances(instances=tuple(await instances.list_instances(control)))

    @router.post("", status_code=201, responses={200: {"model": InstanceView, "description": "It existed already"}})
    async def register(body: NewInstance, who: Sender, response: Response) -> InstanceView:
        """Register the registry at an address. Its team is provisioned in Mnemosyne afterwards."""
        wanted = str(body.id) if body.id else None
        view, new = await instances.register(control, who, body.registry_url, body.name, body.agent_token, wanted)
        response.status_code = 201 if new else 200
        return view

    @router.get("/{instance_id}")
    async def show(instance_id: InstanceId) -> InstanceView:
        """One instance."""
        return await instances.get_instance(control, instance_id)

    @router.patch("/{instance_id}")
    async def change(instance_id: InstanceId, body: InstanceChange, who: Sender) -> InstanceView:
        """Rename an instance, move it to another registry, or replace the token that its agents are sent."""
        return await instances.change_instance(
            control, who, instance_id, name=body.name, registry_url=body.registry_url, agent_token=body.agent_token
        )

    @router.delete("/{instance_id}", status_code=204)
    async def delete(instance_id: InstanceId, who: Sender) -> None:
        """Delete an instance. Its team becomes inactive in Mnemosyne, for good."""
        await instances.delete_instance(control, who, instance_id)

    @router.post("/{instance_id}/refresh")
    async def refresh(instance_id: InstanceId, who: Sender) -> InstanceView:
        """Fetch the registry again."""
        return await instances.refresh_instance(control, who, instance_id)

    @router.post("/{instance_id}/reveal")
    async def reveal(instance_id: InstanceId, who: Sender, response: Response) -> Revealed:
        """Show the team's JWT. This can be done once."""
        response.headers["cache-control"] = "no-store"
        return await instances.reveal(control, who, instance_id)

    @router.post("/{instance_id}/rotate")
    async def rotate(instance_id: InstanceId, who: Sender) -> InstanceView:
        """Replace the team's JWT. The old one is refused from now on; the new one can be shown once."""
        await control.now.rotate(who, instance_id)
        return await instances.get_instance(control, instance_id)

    @router.post("/{instance_id}/provision")
    async def provision(instance_id: InstanceId, who: Sender) -> InstanceView:
        """Compare the team with Mnemosyne now, and put what differs. `status` says how it went."""
        await control.now.sync(who, instance_id)
        return await instances.get_instance(control, instance_id)

    @router.post("/{instance_id}/check")
    async def check(instance_id: InstanceId, who: Sender) -> InstanceView:
        """Ask Mnemosyne what it believes about the team."""
        await control.now.check(who, instance_id)
        return await instances.get_instance(control, instance_id)

    return router


def workspaces_router(parts: Parts) -> APIRouter:
    """Workspaces, and the teams attached to them: `/workspaces`."""
    control = parts.control
    libraries = Libraries(control, parts.agents.calls, parts.settings.origins)
    router = APIRouter(prefix="/workspaces", tags=["workspaces"])

    @router.get("")
    async def list_workspaces() -> WorkspaceList:
        """All workspaces, by name."""
        return WorkspaceList(workspaces=tuple(await workspaces.list_workspaces(control)))

    @router.post("", status_code=201)
    async def create(body: NewWorkspace, who: Sender) -> WorkspaceView:
        """Create a workspace, without attached teams."""
        return await workspaces.create_workspace(control, who, body.name, body.id)

    @router.get("/{workspace_id}")
    async def show(workspace_id: WorkspaceId) -> WorkspaceView:
        """One workspace."""
        return await workspaces.get_workspace(control, workspace_id)

    @router.patch("/{workspace_id}")
    async def rename(workspace_id: WorkspaceId, body: WorkspaceChange, who: Sender) -> WorkspaceView:
        """Give a workspace another name."""
        return await workspaces.rename_workspace(control, who, workspace_id, body.name)

    @router.delete("/{workspace_id}", status_code=204)
    async def delete(workspace_id: WorkspaceId, who: Sender) -> None:
        """Delete a workspace with its conversations. Its teams lose it."""
        await workspaces.delete_workspace(control, who, workspace_id)

    @router.get("/{workspace_id}/libraries")
    async def list_libraries(workspace_id: WorkspaceId) -> WorkspaceLibraries:
        """The libraries that each team of a workspace reads."""
        return await libraries.of(workspace_id)

    @router.get("/{workspace_id}/libraries/search")
    async def search_libraries(workspace_id: WorkspaceId, words: Words) -> Passages:
        """Search as a team of the workspace does, to see what it finds."""
        return await libraries.search(workspace_id, words.strip())

    @router.get("/{workspace_id}/pallas")
    async def list_attached(workspace_id: WorkspaceId) -> Attached:
        """The attached teams."""
        return await workspaces.list_attached(control, workspace_id)

    @router.put("/{workspace_id}/pallas")
    async def replace_attached(workspace_id: WorkspaceId, body: AttachedIds, who: Sender) -> Attached:
        """Attach these teams and no others. Registries of new ones are fetched again; `warning` says if that failed."""
        return await workspaces.replace_attached(control, who, workspace_id, body.instance_ids)

    @router.post("/{workspace_id}/pallas/{instance_id}")
    async def attach(workspace_id: WorkspaceId, instance_id: InstanceId, who: Sender) -> Attached:
        """Attach a team. Its registry is fetched again; `warning` says if that failed."""
        return await workspaces.attach(control, who, workspace_id, instance_id)

    @router.delete("/{workspace_id}/pallas/{instance_id}", status_code=204)
    async def detach(workspace_id: WorkspaceId, instance_id: InstanceId, who: Sender) -> None:
        """Detach a team, with all its agents."""
        await workspaces.detach(control, who, workspace_id, instance_id)

    @router.get("/{workspace_id}/agents")
    async def pick(workspace_id: WorkspaceId) -> Picker:
        """The agents of the attached teams, by label."""
        return await workspaces.pick(control, workspace_id)

    return router


def deliveries_router(parts: Parts) -> APIRouter:
    """What Mnemosyne is not known to have: `/deliveries`."""
    router = APIRouter(prefix="/deliveries", tags=["deliveries"])

    @router.get("")
    async def show(instance_id: PlainId | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Deliveries:
        """Teams that are not known to be in sync with Mnemosyne, with since when, why, and the next try."""
        return await list_deliveries(parts.engine, instance_id, limit)

    @router.post("/reconcile", status_code=202)
    async def reconcile(who: Sender) -> None:
        """Compare all teams with Mnemosyne now, and put what differs."""
        await parts.control.reconciler.cycle()

    return router


def settings_router(parts: Parts) -> APIRouter:
    """The global settings: `/settings`."""
    control = parts.control
    router = APIRouter(prefix="/settings", tags=["settings"])

    @router.get("")
    async def show() -> SettingsView:
        """The global settings."""
        return await get_settings(control)

    @router.put("")
    async def change(body: SettingsChange, who: Sender) -> SettingsView:
        """Change the global settings. Those that are left out stay as they are."""
        return await change_settings(control, who, body.model_dump(exclude_none=True))

    return router


def agents_router(parts: Parts) -> APIRouter:
    """`/agents/status`, and `/icons/{name}`. Browsers get icons from here only, so no other host learns who looks."""
    router = APIRouter(tags=["agents"])
    health, icons = parts.agents.health, parts.agents.icons

    @router.get("/agents/status")
    async def show_status() -> AgentStatuses:
        """The cached health of all agents of registered instances (interface contract, section 4)."""
        return AgentStatuses(agents=tuple(health.statuses()), interval=health.interval)

    @router.get("/icons/{name}", response_class=Response, responses={200: {"content": {"image/*": {}}}})
    async def show_icon(name: Annotated[str, Path(pattern="^[0-9a-f]{32}$")]) -> Response:
        """The icon of a registered agent. Its name is a hash of its address."""
        icon = await icons.get(name)
        headers = {"cache-control": "private, max-age=86400", "content-security-policy": _POLICY}
        return Response(icon.content, media_type=icon.media_type, headers=headers)

    return router
