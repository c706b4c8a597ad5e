"""Metrics of the gateway: its callers and their calls."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

from pallas_runtime.metrics import AGENT, ByAgent, auth_failures, count
from pallas_turns.metrics import CallMetrics, make_call_metrics


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`; series by agent exist for the agents in the catalogue."""

    calls: CallMetrics
    auth_failures: Counter
    clients_gone: Counter
    rpc_requests: Counter
    _callers_refused: ByAgent[Counter]

    def caller_refused(self, team: str, agent: str) -> None:
        """Count a request of an identified caller that may not call the agent."""
        count(self._callers_refused.of(team, agent))


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    calls = make_call_metrics(registry)
    refused = Counter(
        "pallas_callers_refused", "Requests of callers for whom the agent is not", AGENT, registry=registry
    )
    return Metrics(
        calls,
        auth_failures(registry, ("missing", "malformed", "signature")),
        Counter("pallas_clients_gone", "Clients that left in the middle of a request", registry=registry),
        Counter("pallas_rpc_requests", "Requests at /rpc, by how they ended", ["method", "code"], registry=registry),
        calls.agents.keep(refused),
    )
