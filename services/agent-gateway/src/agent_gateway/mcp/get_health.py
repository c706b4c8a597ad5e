"""Answers `get_health` from what the health monitor has published (interface contract section 3)."""

import json
from datetime import UTC, datetime

from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import CHECK_HEALTH
from pallas_contracts.errors import PallasError
from pallas_contracts.health import AgentHealth, HealthAsked
from pallas_contracts.message import utc_now

STALE = "check is stale"


async def get_health(bus: Bus, known: Table[AgentHealth], definition: AgentDefinition) -> str:
    """The health of an agent as the JSON object of the contract.

    A published result is the answer for two probe intervals. After that the monitor is asked; when it does not answer,
    the last result is the answer, as degraded.
    """
    health = known.get(f"{definition.team}.{definition.agent}")
    if health is None or _age(health) > 2 * health.interval:
        health = await _ask(bus, definition) or _stale(health)
    return _json(health)


def _age(health: AgentHealth) -> float:
    return (utc_now() - health.at).total_seconds()


async def _ask(bus: Bus, definition: AgentDefinition) -> AgentHealth | None:
    question = HealthAsked(team=definition.team, agent=definition.agent)
    try:
        return await ask(bus, CHECK_HEALTH, question, team=definition.team, agent=definition.agent)
    except PallasError:
        return None


def _stale(health: AgentHealth | None) -> AgentHealth | None:
    if health is None:
        return None
    status = "error" if health.status == "error" else "degraded"
    message = f"{health.message}; {STALE}" if health.message else STALE
    return health.model_copy(update={"status": status, "message": message})


def _json(health: AgentHealth | None) -> str:
    if health is None:
        return json.dumps({"status": "degraded", "timestamp": _time(utc_now()), "message": "not checked yet"})
    answer = {"status": health.status, "timestamp": _time(health.at)}
    if health.status != "ok":
        answer["message"] = health.message or "no reason given"
    return json.dumps(answer)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
