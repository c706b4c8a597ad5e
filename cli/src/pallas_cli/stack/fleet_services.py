"""The fleet, and the stand-in for Coder that it uses unless `PALLAS_CODER_URL` names a real one."""

import os
import sys
from collections.abc import Collection, Mapping

from pallas_cli.private_files import PRIVATE_FOLDER
from pallas_cli.processes.environment import server_environment
from pallas_cli.processes.launch import Launch, ProcessSpec
from pallas_cli.processes.probes import accepts
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.local_fleet import LocalFleet
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK
from pallas_cli.stack.service_spec import TOOLS, service

_NAME = "PALLAS_CODER_TOKEN"
_ALLOW = "PALLAS_FLEET_ALLOW"
_EVERYBODY = "peer,user,team,turn,token"
"""Who may use the fleet of this machine's user, each only the agents that they have made."""


def fleet_specs(plan: Plan, *, behind: Collection[str]) -> list[ProcessSpec]:
    """Return the fleet and the stand-in, which start after `behind`. Only they get Coder's token."""

    async def variables() -> Mapping[str, str]:
        given = {name: os.environ[name] for name in (_NAME, f"{_NAME}_FILE") if name in os.environ}
        allowed = {_ALLOW: os.environ.get(_ALLOW) or _EVERYBODY}
        token = _kept_token(plan) if plan.fleet.coder_port else given
        return {"PALLAS_CODER_URL": plan.fleet.coder_url} | allowed | token

    needs = frozenset(behind)
    fleet = service(plan, "fleet", variables, port=plan.fleet.port, needs=needs)
    return [fleet, *([_stand_in(plan, plan.fleet.coder_port, needs)] if plan.fleet.coder_port else [])]


def _kept_token(plan: Plan) -> dict[str, str]:
    return {_NAME: kept_secret(plan.data, "coder-token")}


def _stand_in(plan: Plan, port: int, needs: frozenset[str]) -> ProcessSpec:
    """The stand-in. Its coding agents are programs of this machine's user, so it gets no settings of Pallas."""
    folder = plan.data / "coder"
    command = ("-P", "-m", "pallas_demo.coder", "--port", str(port))
    command += ("--state", str(folder / "state.json"), "--folder", str(folder / "workspaces"), "--resume")
    local = plan.fleet.local or LocalFleet()
    command += local.arguments

    async def prepare() -> Launch:
        for each in (folder, folder / "workspaces"):
            each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        return Launch(
            command=(sys.executable, *command),
            ready=accepts(LOOPBACK, port),
            env={**server_environment(), **local.passed, **_kept_token(plan), "PYTHONUNBUFFERED": "1"},
        )

    return ProcessSpec("coder", 1, TOOLS, prepare, needs)
