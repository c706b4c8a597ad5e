"""The settings of the gateway: defaults, lists and refused values."""

import pytest

from agent_gateway.settings import GatewaySettings
from pallas_contracts.errors import Rejected


def test_every_setting_has_a_default() -> None:
    settings = GatewaySettings.from_env({})
    assert settings.max_body_bytes == 16 * 1024 * 1024
    assert settings.agent_ports is True
    assert settings.request_state_key is None


def test_lists_are_separated_by_commas() -> None:
    settings = GatewaySettings.from_env({"PALLAS_ALLOWED_HOSTS": "a.example, b.example:*,"})
    assert settings.allowed_hosts == ("a.example", "b.example:*")


def test_reserved_ports_are_a_list() -> None:
    assert GatewaySettings.from_env({"PALLAS_RESERVED_PORTS": "17036, 22,"}).reserved_ports == (17036, 22)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PALLAS_MAX_BODY_BYTES", "77"),
        ("PALLAS_AGENT_PORTS", "perhaps"),
        ("PALLAS_REQUEST_STATE_KEY", "too-short-a-secret"),
        ("PALLAS_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("PALLAS_TRUSTED_PROXIES", "10.0.0.1,proxy.example"),
        ("PALLAS_TRUSTED_PROXIES", "*"),
        ("PALLAS_RESERVED_PORTS", "20000-20100"),
        ("PALLAS_RESERVED_PORTS", "17036,70000"),
        ("PALLAS_MAX_AGENT_PORTS", "0"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(Rejected) as refused:
        GatewaySettings.from_env({variable: value})
    assert variable in refused.value.message
    assert value not in refused.value.message


def test_proxies_are_addresses_and_networks() -> None:
    settings = GatewaySettings.from_env({"PALLAS_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.7,fd00::/8"})
    assert list(map(str, settings.trusted_proxies)) == ["10.0.0.0/8", "192.0.2.7/32", "fd00::/8"]
    assert GatewaySettings.from_env({}).trusted_proxies == ()


def test_the_request_state_key_is_not_printed() -> None:
    settings = GatewaySettings.from_env({"PALLAS_REQUEST_STATE_KEY": "k" * 40})
    assert "kkkk" not in repr(settings)
    assert "kkkk" not in settings.model_dump_json()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "gateway.example"])
def test_off_loopback_authentication_must_be_on_or_explicitly_waived(host: str) -> None:
    with pytest.raises(Rejected) as refused:
        GatewaySettings.from_env({"PALLAS_HOST": host})
    assert "PALLAS_GATEWAY_AUTH" in refused.value.message
    assert "PALLAS_ALLOW_UNAUTHENTICATED" in refused.value.message
    for accepted in ({"GATEWAY_AUTH": "required"}, {"GATEWAY_AUTH": "optional"}, {"ALLOW_UNAUTHENTICATED": "true"}):
        GatewaySettings.from_env({"PALLAS_HOST": host, **{f"PALLAS_{key}": value for key, value in accepted.items()}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_on_loopback_authentication_may_be_off(host: str) -> None:
    assert GatewaySettings.from_env({"PALLAS_HOST": host}).gateway_auth == "off"
