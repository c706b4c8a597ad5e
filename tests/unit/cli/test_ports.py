"""Which ports the processes of a stack get."""

import socket
from collections.abc import Generator

import pytest

from pallas_cli.refused import Refused
from pallas_cli.stack.ports import OFFSETS, Ports, free_port, is_free, require_free


@pytest.fixture
def busy_port() -> Generator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_ports_count_from_the_base() -> None:
    ports = Ports(40000)
    names = ("registry", "agent-gateway", "nats-server", "redis-server", "postgres", "demo-tools", "workspaces")
    assert [*map(ports.of, names)] == [40000, 40020, 40030, 40032, 40033, 40034, 40042]
    assert len(ports.all()) == len(OFFSETS), "no port has two owners"


def test_ports_of_agents_move_with_the_base() -> None:
    assert (Ports(23030).of_agents, Ports(24030).of_agents) == (0, 1000)


def test_further_gateways_avoid_ports_that_are_fixed_or_belong_to_agents() -> None:
    ports = Ports(free_port() // 100 * 100)
    found = ports.gateways(12, taken={ports.base + 22})
    assert found[0] == ports.of("agent-gateway")
    assert len(set(found)) == 12
    assert not set(found[1:]) & (ports.all() | {ports.base + 22})


def test_further_gateways_avoid_ports_in_use(busy_port: int) -> None:
    assert busy_port not in Ports(busy_port - 21).gateways(2)


def test_free_ports_are_all_different_before_they_are_bound() -> None:
    given = [free_port() for _ in range(900)]
    assert len(set(given)) == len(given)


def test_every_port_in_use_is_refused_in_a_line_of_its_own(busy_port: int) -> None:
    assert not is_free(busy_port)
    with pytest.raises(Refused) as refusal:
        require_free({"registry": busy_port, "gateway": free_port(), "nats-server": busy_port})
    assert [line.split(";")[0] for line in refusal.value.lines] == [f"port {busy_port} is in use"] * 2
    assert "registry" in refusal.value.lines[0]
    assert "nats-server" in refusal.value.lines[1]
