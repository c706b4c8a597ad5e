"""Which dedicated ports a gateway tries to bind."""

from tests.descriptors import open_files

from agent_gateway.http.dedicated_ports import PortLimits, limits_of
from agent_gateway.settings import GatewaySettings

MANY = 22_000


def test_one_team_gets_its_share_and_keeps_the_ports_that_are_bound() -> None:
    wanted = {f"evil.p{number:05}": 20_000 + number for number in range(MANY)} | {"zoo.a": 10_001, "zoo.b": 10_002}
    limits = PortLimits(101, 100, frozenset({10_002}))
    bound = {f"evil.p{number:05}" for number in range(MANY - 60, MANY)}
    chosen = limits.choose(wanted, bound)
    assert chosen["zoo.a"] == 10_001
    assert "zoo.b" not in chosen
    assert len(chosen) == 101
    assert bound < chosen.keys()
    assert limits.choose(wanted, chosen.keys()) == chosen


def test_the_first_port_of_every_team_comes_before_the_second_of_any() -> None:
    wanted = {f"{team}.{agent}": 2000 for team in "abc" for agent in "xy"}
    assert set(PortLimits(4, 100).choose(wanted, {"a.x", "a.y"})) == {"a.x", "a.y", "b.x", "c.x"}


def test_ports_are_at_most_a_quarter_of_the_files_that_may_be_open() -> None:
    with open_files(1024):
        assert limits_of(GatewaySettings.from_env({})).most == 256
        assert limits_of(GatewaySettings.from_env({"PALLAS_MAX_AGENT_PORTS": "7"})).most == 7


def test_ports_are_moved_by_the_offset_of_the_gateway_and_stay_in_their_range() -> None:
    limits = limits_of(GatewaySettings.from_env({"PALLAS_AGENT_PORT_OFFSET": "1000", "PALLAS_RESERVED_PORTS": "24032"}))
    wanted = {f"a.p{port}": limits.moved(port) for port in (23_031, 23_032, 65_000)}
    assert limits.choose(wanted, ()) == {"a.p23031": 24_031}
    assert limits.refusal(24_032) == "reserved for another service"
    assert "65535" in str(limits.refusal(66_000))
