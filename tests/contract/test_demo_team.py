"""The demo team's files fit what `pallas up` starts, also where nothing is in the environment."""

import re
from pathlib import Path

import yaml
from tests.deployment.services import DEMO

from pallas_cli.stack.demo_servers import DemoServers
from pallas_cli.stack.options import StackOptions
from pallas_cli.stack.ports import Ports
from pallas_demo.__main__ import DEFAULT_PORT

DEFAULTS = DemoServers.at(Ports(StackOptions(Path()).port_base))
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")


def test_the_servers_of_the_demo_team_are_by_default_where_a_stack_with_the_default_ports_has_them() -> None:
    servers = yaml.safe_load((DEMO / "fastagent.config.yaml").read_text("utf-8"))["mcp"]["servers"]
    written = [_DEFAULT.fullmatch(server["url"]) for server in servers.values()]
    defaults = {found[1]: found[2] for found in written if found}
    assert defaults == DEFAULTS.environ()


def test_the_demo_server_listens_by_default_where_the_demo_team_looks_for_it() -> None:
    assert DEFAULTS.tools_port == DEFAULT_PORT
