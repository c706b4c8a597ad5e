"""How a service of ours is started: `python -m`, told everything through its environment, ready by its own word."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping

from pallas_cli.processes.environment import of_a_service
from pallas_cli.processes.launch import Launch, ProcessSpec
from pallas_cli.processes.probes import answers_ok
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK, free_port

SERVERS, TOOLS, SERVICES = range(3)
"""The stages of stopping: what turns call outlives the turns, and servers outlive everybody."""

BROKER = frozenset({"nats-server"})

_NO_TLS = {"PALLAS_NATS_CA": "", "PALLAS_NATS_CA_FILE": ""}
"""The stack's own broker is on loopback, whatever the user's environment says of another."""

type Told = Callable[[], Awaitable[Mapping[str, str]]]
"""Says at every start of a service what it is told besides what all are told."""


def service(
    plan: Plan,
    name: str,
    told: Told,
    *,
    number: int = 1,
    port: int | None = None,
    stage: int = SERVICES,
    needs: frozenset[str] = BROKER,
    inherited: Callable[[], dict[str, str]] = of_a_service,
) -> ProcessSpec:
    """A service on a fixed port, or on another free one at every start; `inherited` is what it is not told here."""

    async def prepare() -> Launch:
        bound = free_port() if port is None else port
        own = await told()
        return Launch(
            command=(sys.executable, "-m", name.replace("-", "_")),
            ready=answers_ok(f"http://{LOOPBACK}:{bound}/readyz"),
            env={
                **inherited(),
                **told_to_all(plan),
                **_user(plan, name),
                "PALLAS_HOST": LOOPBACK,
                "PALLAS_PORT": str(bound),
                **own,
            },
        )

    return ProcessSpec(name, number, stage, prepare, needs)


def _user(plan: Plan, name: str) -> dict[str, str]:
    """Who it is at the stack's own broker; at another one, whoever the user's environment says."""
    if plan.nats is None:
        return {}
    return {"PALLAS_NATS_SEED": "", "PALLAS_NATS_SEED_FILE": str(plan.nats.seeds.path(name)), **_NO_TLS}


def told_to_all(plan: Plan) -> dict[str, str]:
    """What every process is told; the user's own log level wins."""
    return {
        "PALLAS_NATS_URL": plan.nats_url,
        "PALLAS_DRAIN_SECONDS": f"{plan.drain_seconds:g}",
        "PALLAS_LOG_LEVEL": os.environ.get("PALLAS_LOG_LEVEL") or "INFO",
        "PALLAS_LOG_FORMAT": "json",
        "PYTHONUNBUFFERED": "1",
    }
