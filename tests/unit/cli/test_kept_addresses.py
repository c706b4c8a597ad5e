"""Where commands find the addresses of a stack."""

from pathlib import Path

import pytest

from pallas_cli.kept_addresses import find_address, keep_addresses
from pallas_cli.parts import DEFAULTS
from pallas_cli.refused import Refused


def test_an_address_is_that_of_the_option_then_of_the_data_folder_then_the_default(tmp_path: Path) -> None:
    assert find_address(None, tmp_path, "nats") == DEFAULTS["nats"]
    keep_addresses(tmp_path, {"nats": "nats://127.0.0.1:1"})
    assert find_address(None, tmp_path, "nats") == "nats://127.0.0.1:1"
    assert find_address("nats://127.0.0.1:2", tmp_path, "nats") == "nats://127.0.0.1:2"
    assert find_address(None, tmp_path, "gateway") == DEFAULTS["gateway"]


def test_a_stack_without_the_auth_services_is_not_confused_with_the_one_at_the_default_address(tmp_path: Path) -> None:
    keep_addresses(tmp_path, {"team_lifecycle": None})
    with pytest.raises(Refused, match="has no team-lifecycle: it was started with --no-auth") as refused:
        find_address(None, tmp_path, "team_lifecycle")
    assert refused.value.code == 1
    assert find_address("http://elsewhere", tmp_path, "team_lifecycle") == "http://elsewhere"


@pytest.mark.parametrize("content", ["", "[]", "\xff"])
def test_a_broken_file_of_addresses_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "addresses.json").write_text(content, "latin-1")
    with pytest.raises(Refused, match=r"addresses\.json cannot be read"):
        find_address(None, tmp_path, "nats")


def test_only_the_owner_can_read_the_addresses(tmp_path: Path) -> None:
    keep_addresses(tmp_path, {"nats": "nats://me:secret@127.0.0.1:1"})
    assert (tmp_path / "addresses.json").stat().st_mode & 0o077 == 0
