"""The processes of a stack, with their variables and needs.

A new service is a new entry in `service_specs`, or in `auth_specs` if it is an auth service.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from pallas_cli.processes.environment import service_environment, team_environment
from pallas_cli.processes.launch import Launch, ProcessSpec
from pallas_cli.processes.probes import accepts
from pallas_cli.stack.auth_services import auth_specs
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK
from pallas_cli.stack.service_spec import SERVERS, TOOLS, Variables, common_variables, service


def all_specs(plan: Plan) -> list[ProcessSpec]:
    """Return every process of the stack, in the order of the stop signals within a stage.

    The auth services start after the others, so agents answer as early as they would without them.
    """
    agents = [*service_specs(plan), *_demo_tools(plan)]
    return [*agents, *auth_specs(plan, behind={spec.name for spec in agents}), *server_specs(plan)]


def server_specs(plan: Plan) -> list[ProcessSpec]:
    """Return the servers that this stack runs itself."""
    servers = (("nats-server", plan.nats), ("redis-server", plan.redis), ("postgres", plan.postgres))
    return [ProcessSpec(name, 1, SERVERS, server.launch) for name, server in servers if server is not None]


def service_specs(plan: Plan) -> list[ProcessSpec]:
    """Return the services of agents. Gateways stop first, so that no new turn arrives while the others drain."""
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
        service(plan, "agent-worker", _always(worker), number=number, inherited=team_environment)
        for number in range(1, plan.workers + 1)
    ]
    specs.append(service(plan, "registry", _always({"PALLAS_PUBLIC_URL": public}), port=plan.registry_port))
    specs.append(service(plan, "health-monitor", _always(teams), inherited=team_environment))
    return specs


def _always(env: Mapping[str, str]) -> Variables:
    async def variables() -> Mapping[str, str]:
        return env

    return variables


def _demo_tools(plan: Plan) -> Sequence[ProcessSpec]:
    if plan.demo is None:
        return ()
    port = plan.demo.tools_port

    async def prepare() -> Launch:
        return Launch(
            command=(sys.executable, "-m", "pallas_demo", "--port", str(port)),
            ready=accepts(LOOPBACK, port),
            env=service_environment() | common_variables(plan),
        )

    return (ProcessSpec("demo-tools", 1, TOOLS, prepare),)
