"""The KEDA ScaledObject of the workers that host some team folders. It scales them by the agents' queues.

Each agent has its own consumer and trigger. KEDA's lag of a consumer is its waiting and running turns. An autoscaler
with several metrics takes the largest, not the sum, so `scalingModifiers` adds them up. An agent with a concurrency
limit asks for no more slots than its limit.
"""

import json
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
    """The Deployment, the namespace of its broker, the slots of a worker, and the least and most workers."""

    name: str
    namespace: str
    slots: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Queue:
    """An agent's queue. `lag` is its name in the formula, `limit` its concurrency limit (None: no limit)."""

    lag: str
    consumer: str
    limit: int | None

    @property
    def wanted(self) -> str:
        """The slots that the queue needs, as a part of the formula."""
        return self.lag if self.limit is None else f"({self.lag} < {self.limit} ? {self.lag} : {self.limit})"


def scaled_object(folders: Sequence[Path], scaling: Scaling, *, as_json: bool = False) -> str:
    """Return the ScaledObject as YAML.

    Raises:
        Refused: a folder has faults.
    """
    try:
        teams = load_teams(folders, os.environ)
    except TeamFaults as error:
        raise Refused(*map(str, error.faults)) from error
    document = manifest(list(_queues(teams)), scaling)
    return f"{json.dumps(document, indent=2)}\n" if as_json else yaml.safe_dump(document, sort_keys=False, width=120)


def _queues(teams: Sequence[TeamFolder]) -> Iterator[Queue]:
    agents = [(team.name, name, agent) for team in teams for name, agent in team.agents.items()]
    for number, (team, name, agent) in enumerate(agents, 1):
        yield Queue(f"lag_{number}", consumer_name(team, name), agent.limits.max_concurrency)


def manifest(queues: Sequence[Queue], scaling: Scaling) -> dict[str, Any]:
    """The ScaledObject as plain values."""
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
            # While the broker cannot be reached, no worker is stopped.
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
            # With this name KEDA also finds the individual servers of a cluster.
            "natsServerMonitoringEndpoint": f"nats-servers.{scaling.namespace}.svc.cluster.local:{MONITOR_PORT}",
            "account": "$G",
            "stream": TURN_QUEUE.name,
            "consumer": queue.consumer,
            "lagThreshold": str(scaling.slots),
        },
    }
