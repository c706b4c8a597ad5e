"""The processes of a stack: which there are, what each is told, and what it needs before it starts.

Adding a service means adding one entry to `service_specs`, or to `auth_specs` when it is for who may read what.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from pallas_cli.processes.environment import of_a_service, of_team_folders
from pallas_cli.processes.launch import Launch, ProcessSpec
from pallas_cli.processes.probes import accepts
from pallas_cli.stack.auth_services import auth_specs
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK
from pallas_cli.stack.service_spec import SERVERS, TOOLS, Told, service, told_to_all


def all_specs(plan: Plan) -> list[ProcessSpec]:
    """Return every process of the stack, in the order in which the processes of a stage are told to stop.

    The auth side waits for the others, which then answer as soon as they would without it.
    """
    agents = [*service_specs(plan), *_demo_tools(plan)]
    return [*agents, *auth_specs(plan, behind={spec.name for spec in agents}), *server_specs(plan)]


def server_specs(plan: Plan) -> list[ProcessSpec]:
    """Return the servers that this stack runs itself."""
    servers = (("nats-server", plan.nats), ("redis-server", plan.redis), ("postgres", plan.postgres))
    return [ProcessSpec(name, 1, SERVERS, server.launch) for name, server in servers if server is not None]


def service_specs(plan: Plan) -> list[ProcessSpec]:
    """Return the services of agents: gateways first, so that no new turn comes in while the others drain."""
    demo = plan.demo.environ() if plan.demo else {}
    teams = {"PALLAS_TEAMS": os.pathsep.join(str(team) for team in plan.teams)} | demo
    worker = teams | ({"PALLAS_SLOTS": str(plan.slots)} if plan.slots is not None else {})
    public = os.environ.get("PALLAS_PUBLIC_URL") or plan.gateway_urls[0]
    specs: list[ProcessSpec] = []
    for number, (port, url) in enumerate(zip(plan.gateway_ports, plan.gateway_urls, strict=True), 1):
        own = {
            "PALLAS_PUBLIC_URL": os.environ.get("PALLAS_PUBLIC_URL") or url,
            "PALLAS_AGENT_PORTS": "true",
            "PALLAS_REQUEST_STATE_KEY": kept_secret(plan.data, "request-state"),
            "PALLAS_LOG_KEY": kept_secret(plan.data, "log-key"),
        }
        specs.append(service(plan, "agent-gateway", _always(own), number=number, port=port))
    specs += [
        service(plan, "agent-worker", _always(worker), number=number, inherited=of_team_folders)
        for number in range(1, plan.workers + 1)
    ]
    specs.append(service(plan, "registry", _always({"PALLAS_PUBLIC_URL": public}), port=plan.registry_port))
    specs.append(service(plan, "health-monitor", _always(teams), inherited=of_team_folders))
    return specs


def _always(env: Mapping[str, str]) -> Told:
    async def told() -> Mapping[str, str]:
        return env

    return told


def _demo_tools(plan: Plan) -> Sequence[ProcessSpec]:
    if plan.demo is None:
        return ()
    port = plan.demo.tools_port

    async def prepare() -> Launch:
        return Launch(
            command=(sys.executable, "-m", "pallas_demo", "--port", str(port)),
            ready=accepts(LOOPBACK, port),
            env=of_a_service() | told_to_all(plan),
        )

    return (ProcessSpec("demo-tools", 1, TOOLS, prepare),)
