"""The processes of a stack, with their variables and needs.

A new service is a new entry in `service_specs`, or in `auth_specs` if it is an auth service.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from pallas_cli.processes.environment import service_environment, team_environment
from pallas_cli.processes.launch import Launch, Probe, ProcessSpec
from pallas_cli.processes.probes import accepts, is_known
from pallas_cli.stack.auth_services import auth_specs
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.fleet_services import fleet_specs
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK
from pallas_cli.stack.service_spec import BROKER, SERVERS, TOOLS, Variables, common_variables, service

_LAST_DEMO_AGENT = "example_lib"


def all_specs(plan: Plan) -> list[ProcessSpec]:
    """Return every process of the stack, in the order of the stop signals within a stage.

    Agents answer as soon as gateways, workers and the demo team's tools are ready and the registry lists them. The
    other processes start after them, and the auth services and the fleet last. The registry is ready when it has read
    the health that the health monitor publishes, so the monitor cannot wait for it.
    """
    agents, tools = service_specs(plan), _demo_tools(plan)
    first = frozenset(spec.name for spec in (*agents, *tools)) - {"registry"}
    watched = _teams(plan) | ({"PALLAS_NATS_MONITOR_URLS": plan.nats.monitor_url} if plan.nats else {})
    monitor = service(plan, "health-monitor", _always(watched), needs=BROKER | first, inherited=team_environment)
    known = {"PALLAS_PUBLIC_URL": plan.pipelines_url} | _log_key(plan) | _api_keys()
    pipelines = service(plan, "pipelines", _always(known), port=plan.pipelines_port, needs=BROKER | first)
    addresses = {"PALLAS_PUBLIC_URL": plan.data_pool_url, "PALLAS_GATEWAY_URL": _public_url(plan)}
    pool = service(plan, "data-pool", _always(addresses), port=plan.data_pool_port, needs=BROKER | first)
    last = first | {"registry", monitor.name}
    fleet, auth = fleet_specs(plan, behind=BROKER | last), auth_specs(plan, behind=last)
    others = [*_demo_agents(plan), *auth, *server_specs(plan, behind=first)]
    return [*agents, pipelines, pool, *fleet, monitor, *tools, *others]


def server_specs(plan: Plan, *, behind: frozenset[str]) -> list[ProcessSpec]:
    """Return the servers that this stack runs itself. Those of the auth services start after `behind`."""
    servers = (
        ("nats-server", plan.nats, frozenset[str]()),
        ("redis-server", plan.redis, behind),
        ("postgres", plan.postgres, behind),
    )
    return [ProcessSpec(name, 1, SERVERS, server.launch, needs) for name, server, needs in servers if server]


def service_specs(plan: Plan) -> list[ProcessSpec]:
    """Return gateways, workers and the registry.

    Gateways stop first, so that no new turn arrives while the others drain.
    """
    worker = _teams(plan) | ({"PALLAS_SLOTS": str(plan.slots)} if plan.slots is not None else {})
    others = os.environ.get("PALLAS_RESERVED_PORTS")
    reserved = [*plan.fixed_ports().values(), *([others] if others else [])]
    specs: list[ProcessSpec] = []
    for number, (port, url) in enumerate(zip(plan.gateway_ports, plan.gateway_urls, strict=True), 1):
        own = {
            "PALLAS_PUBLIC_URL": os.environ.get("PALLAS_PUBLIC_URL") or url,
            "PALLAS_AGENT_PORTS": "true",
            "PALLAS_AGENT_PORT_OFFSET": str(plan.agent_port_offset),
            "PALLAS_RESERVED_PORTS": ",".join(map(str, reserved)),
            "PALLAS_REQUEST_STATE_KEY": kept_secret(plan.data, "request-state"),
        }
        own |= _log_key(plan)
        specs.append(service(plan, "agent-gateway", _always(own), number=number, port=port))
    specs += [
        service(plan, "agent-worker", _always(worker), number=number, inherited=team_environment)
        for number in range(1, plan.workers + 1)
    ]
    specs += _fast_agent_workers(plan)
    public = {"PALLAS_PUBLIC_URL": _public_url(plan)}
    specs.append(service(plan, "registry", _always(public), port=plan.registry_port))
    return specs


def _fast_agent_workers(plan: Plan) -> Sequence[ProcessSpec]:
    """A worker for each folder with agents of fast-agent: at the broker, it is an agent-worker."""
    gateways = ",".join(dict.fromkeys((*plan.gateway_urls, _public_url(plan))))
    return [
        service(
            plan,
            f"fast-agent-worker-{team}",
            _always({"PALLAS_TEAMS": str(folder), "PALLAS_GATEWAY_URLS": gateways}),
            inherited=team_environment,
            python=str(plan.fast_agent_python),
            module="fast_agent_worker",
            user="agent-worker",
        )
        for team, folder in plan.fast_agent.items()
    ]


def _public_url(plan: Plan) -> str:
    return os.environ.get("PALLAS_PUBLIC_URL") or plan.gateway_urls[0]


def _log_key(plan: Plan) -> dict[str, str]:
    return {"PALLAS_LOG_KEY": kept_secret(plan.data, "log-key")}


def _api_keys() -> dict[str, str]:
    """The keys of the HTTP API, which pipelines alone inherits."""
    names = ("PALLAS_CONSTELLATION_API_KEYS", "PALLAS_CONSTELLATION_API_KEYS_FILE")
    return {name: os.environ[name] for name in names if name in os.environ}


def _teams(plan: Plan) -> dict[str, str]:
    demo = plan.demo.environ() if plan.demo else {}
    return {"PALLAS_TEAMS": os.pathsep.join(str(team) for team in plan.teams)} | demo


def _always(env: Mapping[str, str]) -> Variables:
    async def variables() -> Mapping[str, str]:
        return env

    return variables


def _demo_tools(plan: Plan) -> Sequence[ProcessSpec]:
    if plan.demo is None:
        return ()
    port = plan.demo.tools_port
    return (_demo_process(plan, "demo-tools", ("pallas_demo", "--port", str(port)), accepts(LOOPBACK, port)),)


def _demo_agents(plan: Plan) -> Sequence[ProcessSpec]:
    """The demo's data agents, which are ready when a gateway knows the last one."""
    if not plan.demo_agents:
        return ()
    command = ("pallas_demo.data_agents", plan.data_pool_url)
    known = is_known(f"{plan.gateway_urls[0]}/teams/data/mcp/{_LAST_DEMO_AGENT}")
    return (_demo_process(plan, "demo-agents", command, known, needs=frozenset({"data-pool"})),)


def _demo_process(
    plan: Plan, name: str, command: tuple[str, ...], ready: Probe, needs: frozenset[str] = frozenset()
) -> ProcessSpec:
    async def prepare() -> Launch:
        env = service_environment() | common_variables(plan)
        return Launch(command=(sys.executable, "-P", "-m", *command), ready=ready, env=env)

    return ProcessSpec(name, 1, TOOLS, prepare, needs)
