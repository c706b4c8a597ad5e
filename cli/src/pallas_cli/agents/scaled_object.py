"""The KEDA ScaledObject of the workers that host some team folders: how many there are follows from their queues.

Each agent has a consumer of its own, so there is a trigger for each; KEDA's lag of a consumer is what waits and what
runs. An autoscaler given several metrics takes the largest, not the sum, so `scalingModifiers` makes one of them. An
agent that may run only a few turns at a time does not call for more workers than those need.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pallas_bus.turnlog.queue import consumer_name
from pallas_cli.refused import Refused
from pallas_contracts.catalog import TURN_QUEUE
from pallas_teams import TeamFaults, TeamFolder, load_teams

MONITOR_PORT = 8222
POLLING_SECONDS, COOLDOWN_SECONDS, STABLE_SECONDS = 5, 300, 120
_AT_A_TIME = {"type": "Percent", "value": 50, "periodSeconds": 30}


@dataclass(frozen=True, slots=True)
class Scaling:
    """Which Deployment is scaled, where its broker is, and how far."""

    name: str
    namespace: str
    slots: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Queue:
    """An agent's queue, under a name that a formula may have. `limit` turns of it run at a time, if it has a limit."""

    lag: str
    consumer: str
    limit: int | None

    @property
    def wanted(self) -> str:
        """The slots that it calls for, as part of a formula."""
        return self.lag if self.limit is None else f"({self.lag} < {self.limit} ? {self.lag} : {self.limit})"


def scaled_object(folders: Sequence[Path], scaling: Scaling) -> str:
    """Return it as YAML.

    Raises:
        Refused: a folder cannot be hosted.
    """
    try:
        teams = load_teams(folders, os.environ)
    except TeamFaults as error:
        raise Refused(*map(str, error.faults)) from error
    return yaml.safe_dump(manifest(list(_queues(teams)), scaling), sort_keys=False, width=120)


def _queues(teams: Sequence[TeamFolder]) -> Iterator[Queue]:
    agents = [(team.name, name, agent) for team in teams for name, agent in team.agents.items()]
    for number, (team, name, agent) in enumerate(agents, 1):
        yield Queue(f"lag_{number}", consumer_name(team, name), agent.limits.max_concurrency)


def manifest(queues: Sequence[Queue], scaling: Scaling) -> dict[str, Any]:
    """The object as plain values."""
    modifiers = {
        "formula": " + ".join(queue.wanted for queue in queues),
        "target": str(scaling.slots),
        "activationTarget": "0",
        "metricType": "AverageValue",
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": scaling.name},
        "spec": {
            "scaleTargetRef": {"name": scaling.name},
            "minReplicaCount": scaling.least,
            "maxReplicaCount": scaling.most,
            "pollingInterval": POLLING_SECONDS,
            "cooldownPeriod": COOLDOWN_SECONDS,
            # A broker that cannot be asked stops no worker.
            "fallback": {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfHigher"},
            "advanced": {
                "scalingModifiers": modifiers,
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": STABLE_SECONDS, "policies": [_AT_A_TIME]}}
                },
            },
            "triggers": [_trigger(queue, scaling) for queue in queues],
        },
    }


def _trigger(queue: Queue, scaling: Scaling) -> dict[str, Any]:
    return {
        "type": "nats-jetstream",
        "name": queue.lag,
        "metadata": {
            # By this name KEDA also finds the single servers of a cluster.
            "natsServerMonitoringEndpoint": f"nats-servers.{scaling.namespace}.svc.cluster.local:{MONITOR_PORT}",
            "account": "$G",
            "stream": TURN_QUEUE.name,
            "consumer": queue.consumer,
            "lagThreshold": str(scaling.slots),
        },
    }
