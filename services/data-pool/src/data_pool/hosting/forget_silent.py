"""Forgets agents that are gone for good."""

import logging

from data_pool.hosting.heartbeats import silence
from data_pool.hosting.host_agents import HostAgents
from data_pool.registering.registrations import Registrations
from pallas_contracts.catalog import DATA_TEAM

log = logging.getLogger(__name__)


async def forget_silent(registrations: Registrations, hosting: HostAgents, seconds: float) -> None:
    """Remove the agents that should send heartbeats, have not for `seconds`, and are not connected.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    for agent, entry in registrations.table.items():
        silent = silence(entry, hosting.heartbeats.last(agent), hosting.heartbeats.now())
        connected = entry.endpoint is None and hosting.reachable(agent)
        if entry.heartbeat_interval is not None and silent > seconds and not connected:
            log.info("forgotten", extra={"team": DATA_TEAM, "agent": agent, "silent": round(silent)})
            await registrations.remove(agent)
