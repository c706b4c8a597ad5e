"""Routes of registered instances: `/pallas` (auth contract, section 9)."""

from fastapi import APIRouter, Response

from workspaces.answers import Instances, InstanceView, Revealed
from workspaces.handlers import instances, secrets
from workspaces.http.fields import InstanceChange, InstanceId, NewInstance
from workspaces.http.parts import Parts, Sender


def instances_router(parts: Parts) -> APIRouter:
    """The routes."""
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
        return await secrets.reveal(control, who, instance_id)

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
