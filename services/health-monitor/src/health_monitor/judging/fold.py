"""Computes the health of an agent from everything that is known about it. Pure.

Callers do not call an agent in `error`. So what the next turn might repair is only `degraded`: unreachable servers,
however many, and a missing worker. A data agent that no pool can reach is `degraded` too: its turns wait while a pool
restarts or the agent reconnects. When a pool has waited long enough for the agent, it reports that as an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from health_monitor.judging.needs import Needs, model_key
from pallas_contracts.agents import AgentDefinition, Dependency, ModelDependency, Trouble, WorkerPresence
from pallas_contracts.health import HealthStatus, ProbeResult

NO_WORKER = "no worker is running; its turns wait for one"
NO_POOL = "no data-pool can reach it; its turns wait"

_SEVERITY = {"degraded": 1, "error": 2}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at one moment.

    `probes` are the last results by key. `unknown` are keys of dependencies without an address in the team folders.
    `workers` are the present ones. `waited` is the seconds that the oldest turn has waited without a worker.
    """

    probes: Mapping[str, ProbeResult]
    workers: Sequence[WorkerPresence]
    unknown: frozenset[str] = frozenset()
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """An agent's health; `workers` counts those that can run it."""

    status: HealthStatus
    message: str | None
    workers: int


def running_on(key: str, workers: Sequence[WorkerPresence]) -> list[WorkerPresence]:
    """The workers that can run the agent `{team}.{agent}`."""
    return [worker for worker in workers if key in worker.agents and key not in worker.failed]


def fold(definition: AgentDefinition, needs: Needs, evidence: Evidence, *, slow: float) -> Verdict:
    """Judge an agent; a dependency that took longer than `slow` seconds is slow."""
    key = f"{definition.team}.{definition.agent}"
    if definition.unusable is not None:
        return Verdict("error", f"the definition cannot be used: {definition.unusable}", 0)
    running = running_on(key, evidence.workers)
    failed = [worker.failed[key] for worker in evidence.workers if key in worker.failed]
    if failed and not running:
        return Verdict("error", f"the agent failed to start: {failed[0]}", 0)
    if running and all(worker.held for worker in running):
        return Verdict("error", running[0].held, len(running))
    trouble = _least_trouble(key, running, evidence.workers)
    if trouble is not None and trouble.status == "error":
        return Verdict("error", trouble.reason, len(running))
    if not running and evidence.waited is not None and evidence.waited > definition.limits.queue_timeout:
        missing = (NO_POOL if definition.kind == "data" else NO_WORKER).partition(";")[0]
        return Verdict("error", f"turns have waited {evidence.waited:.0f} s and {missing}", 0)
    issues = [issue for server in needs.servers if (issue := _server_issue(server, evidence, running, slow))]
    issues += [issue for model in needs.models if (issue := _model_issue(model, evidence, slow))]
    if failed:
        issues.append(f"the agent failed to start on {len(failed)} of {len(failed) + len(running)} workers")
    if trouble is not None:
        issues.append(trouble.reason)
    if not running:
        issues.append(NO_POOL if definition.kind == "data" else NO_WORKER)
    notes = [f"{name} not checked (its address is not in the team folders)" for name in _unchecked(needs, evidence)]
    return Verdict("degraded" if issues else "ok", ", ".join(issues + notes) or None, len(running))


def _least_trouble(key: str, running: Sequence[WorkerPresence], workers: Sequence[WorkerPresence]) -> Trouble | None:
    """What is wrong with the agent where it is best, as a turn may go there; None: all is well on some worker.

    Workers that cannot run it count only if none can.
    """
    reports = [worker.troubles.get(key) for worker in running]
    reports = reports or [worker.troubles[key] for worker in workers if key in worker.troubles]
    return min(reports, key=lambda it: _SEVERITY[it.status] if it else 0, default=None)


def _server_issue(server: Dependency, evidence: Evidence, running: Sequence[WorkerPresence], slow: float) -> str | None:
    if server.transport == "stdio":
        error = stdio_error(server.key, running)
        return f"{server.name} unreachable ({error})" if error else None
    if server.key in evidence.unknown:
        return None
    probe = evidence.probes.get(server.key)
    if probe is None:
        return f"{server.name} not checked yet"
    if probe.error is not None:
        return f"{server.name} unreachable ({probe.error})"
    return f"{server.name} slow" if probe.duration_ms > slow * 1000 else None


def _model_issue(model: ModelDependency, evidence: Evidence, slow: float) -> str | None:
    if model.key in evidence.unknown:
        return None
    probe = evidence.probes.get(model_key(model))
    name = f"model provider {model.provider}"
    if probe is None:
        return f"{name} not checked yet"
    if probe.error is not None:
        return f"{name} failed preflight ({probe.error})"
    return f"{name} slow" if probe.duration_ms > slow * 1000 else None


def stdio_error(key: str, workers: Sequence[WorkerPresence]) -> str | None:
    """The first error that a worker reports for a stdio server; None without an error or a report."""
    return next((error for worker in workers if (error := worker.stdio.get(key)) is not None), None)


def _unchecked(needs: Needs, evidence: Evidence) -> list[str]:
    servers = [it.name for it in needs.servers if it.transport == "http" and it.key in evidence.unknown]
    return servers + [f"model provider {it.provider}" for it in needs.models if it.key in evidence.unknown]
