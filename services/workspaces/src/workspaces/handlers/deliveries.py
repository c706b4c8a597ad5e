"""What Mnemosyne is not known to have."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_postgres.engine import reading
from workspaces.answers import Deliveries, DeliveryView
from workspaces.handlers.views import drift
from workspaces.tables import WORKSPACE_IDS, MnemosyneTeam, PallasInstance


async def list_deliveries(engine: AsyncEngine, instance_id: str | None, limit: int) -> Deliveries:
    """Teams that are not known to be in sync, of one instance or of all."""
    team, one = MnemosyneTeam, PallasInstance
    joined = select(team, one, WORKSPACE_IDS).outerjoin(one, one.id == team.id)
    found = joined.where(team.since.is_not(None)).order_by(team.since, team.id)
    if instance_id is not None:
        found = found.where(team.id == instance_id)
    async with reading(engine) as session:
        waiting = await session.scalar(select(func.count()).select_from(found.subquery())) or 0
        shown = tuple(_view(*row) for row in await session.execute(found.limit(limit)))
    return Deliveries(deliveries=shown, waiting=waiting)


def _view(team: MnemosyneTeam, one: PallasInstance | None, workspace_ids: list[str]) -> DeliveryView:
    if one is None:
        difference = "Mnemosyne may still have this team, which was deleted here."
    elif one.pallas_team_mnemosyne_status != "provisioned":
        difference = "Mnemosyne does not have this team yet."
    else:
        difference = drift(one.name, one.pallas_team_mnemosyne_status, one.believed, workspace_ids)
    assert team.since is not None
    return DeliveryView(
        instance_id=team.id,
        instance_name=one.name if one else team.name,
        since=team.since,
        difference=difference,
        error=team.error,
        tries=team.tries,
        next_try_at=team.due_at,
        actor=team.actor,
        correlation=team.correlation,
    )
