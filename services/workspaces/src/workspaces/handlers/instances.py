"""Registered instances: each is a registry here, and a team in Mnemosyne with a JWT (auth contract, section 9).

An id that no instance has is `NotFound`.
"""

import logging
import uuid
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict, NotFound
from pallas_postgres.engine import reading
from workspaces.answers import InstanceView, Revealed
from workspaces.changes.make import Changes, Decision, Event, Wake
from workspaces.handlers.control import Control
from workspaces.handlers.views import instance_view
from workspaces.live.hub import ALL, Hub
from workspaces.mnemosyne.vault import Vault
from workspaces.model import Who, no_instance
from workspaces.registries.read import Listing
from workspaces.registries.refresh import listing_values, store_listing
from workspaces.registries.urls import normal_url, suggested_name, told_apart
from workspaces.tables import WORKSPACE_IDS, Assignment, MnemosyneTeam, PallasInstance

log = logging.getLogger(__name__)

UNKNOWN_ADDRESS = "https://mnemosyne.example/mcp/"
MOST_INSTANCES = 1_000
"""The agents of each are read into memory, and checked all the time."""


async def list_instances(control: Control, *only: str) -> list[InstanceView]:
    """All instances by name, or only these."""
    error = select(MnemosyneTeam.error).where(MnemosyneTeam.id == PallasInstance.id).scalar_subquery()
    found = select(PallasInstance, WORKSPACE_IDS, error).order_by(func.lower(PallasInstance.name), PallasInstance.id)
    if only:
        found = found.where(PallasInstance.id.in_(only))
    async with reading(control.engine) as session:
        return [instance_view(one, ids, why, control.health) for one, ids, why in await session.execute(found)]


async def get_instance(control: Control, instance_id: str) -> InstanceView:
    """One instance."""
    found = await list_instances(control, instance_id)
    if not found:
        raise no_instance(instance_id)
    return found[0]


async def register(
    control: Control, who: Who, registry_url: str, name: str | None, agent_token: str | None, wanted: str | None = None
) -> tuple[InstanceView, bool]:
    """Register a registry, which is fetched first. Its team is provisioned afterwards.

    Returns the instance, and whether it is new: the same address again is the same instance. `wanted` is the id of a
    team that Mnemosyne has already.

    Raises:
        Conflict: the address is that of another instance, the id is or was, or there are too many (`too_many`).
        Rejected: the address is bad, or what it has is no document of a registry (`field`).
        RegistryUnreachable: it does not answer.
    """
    base = normal_url(registry_url)
    async with reading(control.engine) as session:
        known = await session.scalar(select(PallasInstance.id).where(PallasInstance.registry_url == base))
    if known is None:
        listing = await control.fetcher.fetch(base)
        sealed = control.vault.seal(agent_token) if agent_token else None
        instance_id, new = await control.changes.make(
            who, lambda session: _insert(session, base, name, listing, sealed, wanted)
        )
    else:
        instance_id, new = known, False
    if wanted not in (None, instance_id):
        raise Conflict(f"id: the address is registered as {instance_id}", code="registered_already")
    return await get_instance(control, instance_id), new


async def _insert(
    session: AsyncSession, base: str, given: str | None, listing: Listing, sealed: str | None, wanted: str | None
) -> Decision[tuple[str, bool]]:
    known = await session.scalar(select(PallasInstance.id).where(PallasInstance.registry_url == base))
    if known is not None:
        return Decision((known, False))
    if wanted and (await session.get(PallasInstance, wanted) or await session.get(MnemosyneTeam, wanted)):
        raise Conflict("id: it is that of another instance, or of one that was deleted", code="id_taken")
    if (await session.scalar(select(func.count()).select_from(PallasInstance)) or 0) >= MOST_INSTANCES:
        raise Conflict(f"there are {MOST_INSTANCES} instances already: delete one first", code="too_many")
    instance_id = wanted or str(uuid.uuid4())
    name = await _free_name(session, given or suggested_name(base, listing.namespace), base)
    row = insert(PallasInstance).values(
        id=instance_id,
        name=name,
        registry_url=base,
        agent_token_encrypted=sealed,
        last_fetched_at=func.clock_timestamp(),
        **listing_values(listing),
    )
    await session.execute(row)
    data = {"name": name, "registry_url": base, "agents": [agent.server_id for agent in listing.agents]}
    registered = Event("instance", "registered", instance_id, data)
    return Decision((instance_id, True), (registered,), (Wake(instance_id),))


async def _free_name(session: AsyncSession, name: str, base: str) -> str:
    """The name, with the address behind it if another instance has it."""
    others = await session.execute(select(PallasInstance.id, PallasInstance.name, PallasInstance.registry_url))
    return told_apart([*((other, given, url) for other, given, url in others), ("", name, base)])[""]


async def change_instance(
    control: Control,
    who: Who,
    instance_id: str,
    *,
    name: str | None,
    registry_url: str | None,
    agent_token: str | None,
) -> InstanceView:
    """Rename an instance, move it to another registry, or replace the token that its agents are sent.

    None leaves it as it is; an empty token removes it.
    It stays the same team wherever it is hosted (auth contract, section 4.1), whose name Mnemosyne mirrors.

    Raises:
        Conflict: another instance has this registry, or this name (`name_taken`).
        Rejected, RegistryUnreachable: as for `register`.
    """
    values: dict[str, Any] = {}
    if name is not None:
        values["name"] = name
    if agent_token is not None:
        values["agent_token_encrypted"] = control.vault.seal(agent_token) if agent_token else None
    listing: Listing | None = None
    if registry_url is not None:
        values["registry_url"] = normal_url(registry_url)
        listing = await control.fetcher.fetch(values["registry_url"])

    async def change(session: AsyncSession) -> Decision[None]:
        where = PallasInstance.id == instance_id
        if not await session.scalar(select(PallasInstance.id).where(where)):
            raise no_instance(instance_id)
        if not values:
            return Decision(None)
        if listing is not None:
            same = PallasInstance.registry_url == values["registry_url"], PallasInstance.id != instance_id
            if other := await session.scalar(select(PallasInstance.id).where(*same)):
                raise Conflict(f"registry_url: it is registered as {other}", code="registered_already")
            await store_listing(session, instance_id, listing)
        if name is not None:
            same = func.lower(PallasInstance.name) == name.lower(), PallasInstance.id != instance_id
            if other := await session.scalar(select(PallasInstance.registry_url).where(*same)):
                raise Conflict(f"name: the team at {other} has this name", code="name_taken", field="name")
        await session.execute(update(PallasInstance).where(where).values(**values))
        await Hub.tell_in(session, ALL, "agents", {})
        data = {"fields": sorted(values), **{key: values[key] for key in ("name", "registry_url") if key in values}}
        told = (Wake(instance_id),) if name is not None else ()
        return Decision(None, (Event("instance", "updated", instance_id, data),), told)

    await control.changes.make(who, change)
    return await get_instance(control, instance_id)


async def delete_instance(control: Control, who: Who, instance_id: str) -> None:
    """Delete an instance with its attachments. Its team is made inactive afterwards."""

    async def remove(session: AsyncSession) -> Decision[None]:
        workspaces = select(Assignment.workspace_id).where(Assignment.pallas_instance_id == instance_id)
        attached = sorted(await session.scalars(workspaces))
        gone = delete(PallasInstance).where(PallasInstance.id == instance_id).returning(PallasInstance.name)
        name = await session.scalar(gone)
        if name is None:
            raise no_instance(instance_id)
        retired = {"name": name, "deleted_at": func.clock_timestamp()}
        row = insert(MnemosyneTeam).values(id=instance_id, correlation="", actor="", **retired)
        await session.execute(row.on_conflict_do_update(index_elements=[MnemosyneTeam.id], set_=retired))
        await Hub.tell_in(session, ALL, "agents", {})
        event = Event("instance", "deleted", instance_id, {"name": name, "workspace_ids": attached})
        return Decision(None, (event,), (Wake(instance_id, revokes=True),))

    await control.changes.make(who, remove)


async def refresh_instance(control: Control, who: Who, instance_id: str) -> InstanceView:
    """Fetch the registry of an instance again. If that fails, its `last_fetch_error` says why."""
    await control.refresher.refresh(who, [instance_id])
    return await get_instance(control, instance_id)


async def reveal(control: Control, who: Who, instance_id: str) -> Revealed:
    """Show the JWT of a team, which is done once for each JWT.

    Raises:
        NotFound: there is no such instance, or it has no JWT (`no_jwt`).
        Conflict: it was shown before (`already_revealed`).
    """
    jwt = await reveal_jwt(control.changes, control.vault, who, instance_id)
    server, url = control.library
    return Revealed(jwt=jwt, stanza=stanza(jwt, server, url))


async def reveal_jwt(changes: Changes, vault: Vault, who: Who, instance_id: str) -> str:
    """Mark the JWT as seen, and return it. Of two that try at the same time, one gets it.

    Raises:
        NotFound, Conflict: as for `reveal`.
    """

    async def mark(session: AsyncSession) -> Decision[str]:
        unseen = PallasInstance.id == instance_id, PallasInstance.jwt_revealed_at.is_(None)
        seen = (
            update(PallasInstance)
            .where(*unseen, PallasInstance.team_jwt_encrypted.is_not(None))
            .values(jwt_revealed_at=func.clock_timestamp())
            .returning(PallasInstance.team_jwt_encrypted, PallasInstance.name)
        )
        row = (await session.execute(seen)).one_or_none()
        if row is None:
            raise await _why_not(session, instance_id)
        sealed, name = row
        return Decision(vault.open(sealed or ""), (Event("instance", "revealed", instance_id, {"name": name}),))

    jwt = await changes.make(who, mark)
    extra = {"team": instance_id, "actor": who.account, "address": who.address, "correlation": who.correlation}
    log.info("pallas_team_jwt_revealed", extra=extra)
    return jwt


async def _why_not(session: AsyncSession, instance_id: str) -> NotFound | Conflict:
    found = select(PallasInstance.team_jwt_encrypted.is_not(None)).where(PallasInstance.id == instance_id)
    has_jwt = await session.scalar(found)
    if has_jwt is None:
        return no_instance(instance_id)
    if not has_jwt:
        return NotFound("the team has no JWT yet", code="no_jwt")
    return Conflict("the JWT was shown before; rotate it to get another one", code="already_revealed")


def stanza(jwt: str, server: str, url: str | None) -> str:
    """The YAML for the team's secrets (auth contract, section 9.1)."""
    import yaml  # as long as a start does not need it, it need not take longer

    entry = {"transport": "http", "url": url or UNKNOWN_ADDRESS, "headers": {"Authorization": f"Bearer {jwt}"}}
    return yaml.safe_dump({"mcp": {"servers": {server: entry}}}, sort_keys=False, width=1_000_000)
