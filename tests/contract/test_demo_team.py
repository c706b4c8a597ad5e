"""The defaults in the demo team's files match what `pallas up` starts on its default ports."""

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


def test_the_default_urls_of_the_demo_team_match_the_default_ports_of_a_stack() -> None:
    servers = yaml.safe_load((DEMO / "fastagent.config.yaml").read_text("utf-8"))["mcp"]["servers"]
    written = [_DEFAULT.fullmatch(server["url"]) for server in servers.values()]
    defaults = {found[1]: found[2] for found in written if found}
    assert defaults == DEFAULTS.environ()


def test_the_demo_server_listens_on_the_default_port_of_the_demo_team() -> None:
    assert DEFAULTS.tools_port == DEFAULT_PORT
