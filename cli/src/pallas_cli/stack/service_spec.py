"""How a service is started: with `python -m`, settings in its environment, and a probe of `/readyz`."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping

from pallas_cli.processes.environment import service_environment
from pallas_cli.processes.launch import Launch, ProcessSpec
from pallas_cli.processes.probes import answers_ok
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK, free_port
from pallas_cli.stack.revision import revision

SERVERS, TOOLS, SERVICES = range(3)
"""The stages of a stop: services first, then the tools that turns call, then the servers."""

BROKER = frozenset({"nats-server"})

_NO_TLS = {"PALLAS_NATS_CA": "", "PALLAS_NATS_CA_FILE": ""}
"""The stack's own broker uses no TLS, even if the environment configures it for another broker."""

type Variables = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the variables of one service, before each start."""


def service(
    plan: Plan,
    name: str,
    variables: Variables,
    *,
    number: int = 1,
    port: int | None = None,
    stage: int = SERVICES,
    needs: frozenset[str] = BROKER,
    inherited: Callable[[], dict[str, str]] = service_environment,
    python: str = sys.executable,
    module: str | None = None,
    user: str | None = None,
) -> ProcessSpec:
    """A service on a fixed port, or on a free port that changes at every start.

    It is run by `python`, which has its `module`, and is `user` at the broker: by default both have the service's name.
    Modules of the folder in which the user is are not imported (`-P`): a file `mcp.py` there would replace the package.

    Its environment is `inherited`, then the variables of all services, then `variables`.
    """

    async def prepare() -> Launch:
        bound = free_port() if port is None else port
        own = await variables()
        return Launch(
            command=(python, "-P", "-m", module or name.replace("-", "_")),
            ready=answers_ok(f"http://{LOOPBACK}:{bound}/readyz"),
            env={
                **inherited(),
                **common_variables(plan),
                "PALLAS_REVISION": os.environ.get("PALLAS_REVISION") or await revision(),
                **_user(plan, user or name),
                "PALLAS_HOST": LOOPBACK,
                "PALLAS_PORT": str(bound),
                **own,
            },
        )

    return ProcessSpec(name, number, stage, prepare, needs)


def _user(plan: Plan, name: str) -> dict[str, str]:
    """The seed of its user at the stack's own broker. At another broker the user's environment names the seed."""
    if plan.nats is None:
        return {}
    return {"PALLAS_NATS_SEED": "", "PALLAS_NATS_SEED_FILE": str(plan.nats.seeds.path(name)), **_NO_TLS}


def common_variables(plan: Plan) -> dict[str, str]:
    """The variables of every process. A log level of the user's environment is kept."""
    return {
        "PALLAS_NATS_URL": plan.nats_url,
        "PALLAS_DRAIN_SECONDS": f"{plan.drain_seconds:g}",
        "PALLAS_LOG_LEVEL": os.environ.get("PALLAS_LOG_LEVEL") or "INFO",
        "PALLAS_LOG_FORMAT": "json",
        "PYTHONUNBUFFERED": "1",
    }
