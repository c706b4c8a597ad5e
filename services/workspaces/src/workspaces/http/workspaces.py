"""Routes of workspaces, and of the teams attached to them: `/workspaces`."""

from fastapi import APIRouter

from workspaces.answers import Attached, Picker, WorkspaceList, WorkspaceView
from workspaces.handlers import attachments, picker, workspaces
from workspaces.http.fields import AttachedIds, InstanceId, NewWorkspace, WorkspaceChange, WorkspaceId
from workspaces.http.parts import Parts, Sender


def workspaces_router(parts: Parts) -> APIRouter:
    """The routes."""
    control = parts.control
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

    @router.get("/{workspace_id}/pallas")
    async def list_attached(workspace_id: WorkspaceId) -> Attached:
        """The attached teams."""
        return await attachments.list_attached(control, workspace_id)

    @router.put("/{workspace_id}/pallas")
    async def replace_attached(workspace_id: WorkspaceId, body: AttachedIds, who: Sender) -> Attached:
        """Attach these teams and no others. Registries of new ones are fetched again; `warning` says if that failed."""
        return await attachments.replace_attached(control, who, workspace_id, body.instance_ids)

    @router.post("/{workspace_id}/pallas/{instance_id}")
    async def attach(workspace_id: WorkspaceId, instance_id: InstanceId, who: Sender) -> Attached:
        """Attach a team. Its registry is fetched again; `warning` says if that failed."""
        return await attachments.attach(control, who, workspace_id, instance_id)

    @router.delete("/{workspace_id}/pallas/{instance_id}", status_code=204)
    async def detach(workspace_id: WorkspaceId, instance_id: InstanceId, who: Sender) -> None:
        """Detach a team, with all its agents."""
        await attachments.detach(control, who, workspace_id, instance_id)

    @router.get("/{workspace_id}/agents")
    async def pick(workspace_id: WorkspaceId) -> Picker:
        """The agents of the attached teams, by label."""
        return await picker.pick(control, workspace_id)

    return router
