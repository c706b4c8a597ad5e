"""Announces that resources of agents have changed, and hears of it. What nobody hears is lost."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_contracts.agents import ResourceChanged
from pallas_contracts.catalog import RESOURCE_CHANGED
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)


async def announce_change(bus: Bus, team: str, agent: str, uri: str) -> None:
    """Announce that a resource of an agent has changed. Without a connection this does nothing."""
    message = ResourceChanged(team=team, agent=agent, uri=uri)
    with suppress(Unavailable):
        await bus.send(RESOURCE_CHANGED.template.subject(team=team, agent=agent), message.model_dump_json().encode())


@asynccontextmanager
async def watch_changes(bus: Bus, on_change: Callable[[str, str, str], None]) -> AsyncGenerator[None]:
    """Call `on_change(team, agent, uri)` for every change that is announced, inside the block."""

    def arrived(message: Msg) -> None:
        ids = RESOURCE_CHANGED.template.parse(message.subject)  # the broker checks who may use the subject
        try:
            change = ResourceChanged.model_validate_json(message.data)
        except ValidationError as error:
            log.warning("unreadable change", extra={"subject": message.subject, "faults": error.error_count()})
        else:
            if ids is not None:
                on_change(ids["team"], ids["agent"], change.uri)

    subscription = await bus.listen(RESOURCE_CHANGED.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
