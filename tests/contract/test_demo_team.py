"""The defaults in the demo team's files match what `pallas up` starts on its default ports."""

import re

import yaml
from tests.deployment.services import DEMO

from pallas_cli.stack.ports import DEFAULT_BASE, Ports, demo_addresses
from pallas_demo.__main__ import DEFAULT_PORT

PORTS = Ports(DEFAULT_BASE)
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")


def test_the_default_urls_of_the_demo_team_match_the_default_ports_of_a_stack() -> None:
    servers = yaml.safe_load((DEMO / "fastagent.config.yaml").read_text("utf-8"))["mcp"]["servers"]
    written = [_DEFAULT.fullmatch(server["url"]) for server in servers.values()]
    defaults = {found[1]: found[2] for found in written if found}
    assert defaults == demo_addresses(PORTS)


def test_the_demo_server_listens_on_the_default_port_of_the_demo_team() -> None:
    assert PORTS.of("demo-tools") == DEFAULT_PORT
