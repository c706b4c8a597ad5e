"""One cause is one page: what a real Prometheus makes of metrics, and a real Alertmanager of alerts."""

import asyncio
from pathlib import Path

from deploy.observability import dashboard
from tests.contract.test_metrics import ALERTS
from tests.deployment.services import SERVICES
from tests.integration.alerts.watch import World, watching
from tests.integration.real_parts import until

SEVERITY = {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}
LEADERLESS = "PallasStreamsLeaderless"
LOST_QUORUM = """\
pallas_stream_leaderless{stream="TURN_LOG"} 1
pallas_stream_leaderless{stream="TURN_QUEUE"} 1
pallas_broker_cluster_size 3
pallas_broker_up{server="n0"} 1
pallas_broker_up{server="n1"} 0
pallas_broker_up{server="n2"} 0
"""
HARPER = {"team": "demo", "agent": "harper"}
AWAY = "unrelated"
type Alert = dict[str, str]


def an_alert(name: str, /, **labels: str) -> Alert:
    """An alert as the rules make it."""
    return {"alertname": name, "severity": SEVERITY[name], **labels}


SCENES: dict[str, tuple[Alert, list[Alert]]] = {
    "nothing-answers": (
        an_alert("PallasDown"),
        [
            an_alert("PallasGatewayDown"),
            an_alert("PallasServiceDown", job="registry"),
            an_alert("PallasBrokerUnwatched"),
        ],
    ),
    "no-broker": (
        an_alert("PallasBrokerLost"),
        [
            an_alert("PallasServiceNotReady", job="agent-gateway"),
            an_alert("PallasAgentInError", **HARPER),
            an_alert("PallasBearersNotJudged"),
            an_alert("PallasErrorBudgetBurnsFast", slo="accepted"),
        ],
    ),
    "no-gateway": (an_alert("PallasGatewayDown"), [an_alert("PallasErrorBudgetBurnsFast", slo="accepted")]),
    "no-postgres": (
        an_alert("PallasPostgresAway", job="team-lifecycle"),
        [an_alert("PallasServiceNotReady", job="team-lifecycle"), an_alert("PallasBearersNotJudged")],
    ),
    "no-redis": (an_alert("PallasRedisAway"), [an_alert("PallasServiceNotReady", job="team-lifecycle")]),
    "no-resolver": (an_alert("PallasServiceDown", job="auth-resolver"), [an_alert("PallasBearersNotJudged")]),
    "no-monitor": (
        an_alert("PallasServiceDown", job="health-monitor"),
        [an_alert("PallasBrokerUnwatched"), an_alert("PallasSpendingLags")],
    ),
    "no-worker": (
        an_alert("PallasAgentWithoutWorker", **HARPER),
        [an_alert("PallasAgentInError", **HARPER), an_alert("PallasQueueDeep", **HARPER)],
    ),
    "no-coder": (an_alert("PallasCoderAway"), [an_alert("PallasAgentInError", team="fleet", agent="fleet")]),
    "held": (
        an_alert("PallasTurnsHeld"),
        [an_alert("PallasAgentWithoutWorker", **HARPER), an_alert("PallasErrorBudgetBurnsFast", slo="accepted")],
    ),
    "provider": (
        an_alert("PallasProviderFails", provider="openai"),
        [
            an_alert("PallasTurnsFail", **HARPER, provider="openai"),
            an_alert("PallasDependencyDown", kind="model", name="openai.gpt-5", provider="openai"),
        ],
    ),
    "burning": (
        an_alert("PallasErrorBudgetBurnsFast", slo="accepted"),
        [an_alert("PallasErrorBudgetBurns", slo="accepted")],
    ),
}
"""Causes and what follows from them, by the cluster in which each happens."""

SECOND_CAUSES = [
    *(an_alert("PallasServiceDown", job=job) for job in ("registry", "pipelines")),
    an_alert("PallasAgentWithoutWorker", **HARPER),
    an_alert("PallasAgentInError", team="demo", agent="other"),
    an_alert("PallasErrorBudgetBurnsFast", slo="ended"),
    an_alert("PallasProviderFails", provider="openai"),
    an_alert("PallasTurnsFail", team="demo", agent="other", provider="anthropic"),
    an_alert("PallasTurnsFail", team="demo", agent="scribe"),
    an_alert("PallasDependencyDown", kind="mcp", name="toolbox"),
]
"""What happens at the same time in one cluster, and is not related."""


async def test_one_cause_is_one_page(tmp_path: Path) -> None:
    async with watching(tmp_path) as world:
        await asyncio.gather(a_lost_quorum(world), every_other_scene(world), unrelated_alerts(world), panels(world))
        pages, tickets = groups(world, "pages"), groups(world, "tickets")
    causes = {(name, cause["alertname"]) for name, (cause, _) in SCENES.items()}
    critical = {pair for pair in causes if SEVERITY[pair[1]] == "critical"}
    second = {(AWAY, alert["alertname"]) for alert in SECOND_CAUSES}
    more = {pair for pair in second if SEVERITY[pair[1]] == "critical"}
    assert sorted(pages) == sorted({("", LEADERLESS), *critical, *more})
    assert set(tickets) == causes - critical | second - more


async def a_lost_quorum(world: World) -> None:
    """Prometheus sees it by the metrics of all services, and Alertmanager silences all but one alert."""
    world.exposed |= dict.fromkeys(SERVICES, "pallas_ready 0\n") | {"workspaces": "pallas_ready 1\n"}
    world.exposed["health-monitor"] += LOST_QUORUM
    follows = {"PallasServiceNotReady", "PallasBrokerLost", "PallasBrokerServerDown"}

    async def silenced() -> bool:
        states = await world.states(cluster="")
        return states.keys() >= follows and {name for name, how in states.items() if how == "active"} == {LEADERLESS}

    await until(silenced)
    assert follows | {LEADERLESS} <= await world.firing()
    await until(lambda: told(world, "", LEADERLESS))


async def every_other_scene(world: World) -> None:
    """Each scene in a cluster of its own."""
    alerts = [alert | {"cluster": name} for name, (cause, follows) in SCENES.items() for alert in (cause, *follows)]
    await world.send(alerts)
    for name, (cause, follows) in SCENES.items():
        states = await world.states(cluster=name)
        assert states == {it["alertname"]: "suppressed" for it in follows} | {cause["alertname"]: "active"}, name
        await until(lambda name=name, cause=cause: told(world, name, cause["alertname"]))


async def unrelated_alerts(world: World) -> None:
    """None of them is silenced. Two services that are down are one page."""
    await world.send(alert | {"cluster": AWAY} for alert in SECOND_CAUSES)
    found = await world.suppressed(cluster=AWAY)
    assert found == [], found
    for name in {alert["alertname"] for alert in SECOND_CAUSES}:
        await until(lambda name=name: told(world, AWAY, name))


async def panels(world: World) -> None:
    """Prometheus answers every query of the dashboard."""
    for name, text in dashboard.expressions().items():
        asked = text.replace("$__rate_interval", "5m").replace("$team", ".*").replace("$agent", ".*")
        answer = await world.http.post(f"{world.prometheus}/api/v1/query", data={"query": asked})
        assert answer.json()["status"] == "success", (name, answer.text)


async def told(world: World, cluster: str, name: str) -> bool:
    """Whether somebody has been told of an alert."""
    return (cluster, name) in (*groups(world, "pages"), *groups(world, "tickets"))


def groups(world: World, receiver: str) -> list[tuple[str, str]]:
    """The cluster and the name of the alerts of each notification."""
    labels = [notification["groupLabels"] for notification in world.told[receiver]]
    return [(each.get("cluster", ""), each["alertname"]) for each in labels]
