"""Addresses and secrets of a stack, from its data folder."""

from pathlib import Path

import pytest

from pallas_cli.kept_addresses import find_address, keep_addresses
from pallas_cli.kept_secrets import find_admin_password, find_log_key, find_token
from pallas_cli.parts import DEFAULTS
from pallas_cli.refused import Refused
from pallas_cli.stack.data import kept_secret
from pallas_contracts.keyed import LogKey


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


def test_the_admin_password_is_read_from_the_environment_then_from_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_ADMIN_PASSWORD", raising=False)
    with pytest.raises(Refused, match="admin-password does not exist"):
        find_admin_password(tmp_path)
    kept = kept_secret(tmp_path, "admin-password")
    assert find_admin_password(tmp_path) == kept
    monkeypatch.setenv("PALLAS_ADMIN_PASSWORD", "another")
    assert find_admin_password(tmp_path) == "another"


def test_a_password_can_be_read_from_a_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_ADMIN_PASSWORD", raising=False)
    monkeypatch.setenv("PALLAS_ADMIN_PASSWORD_FILE", str(tmp_path / "password"))
    with pytest.raises(Refused, match=r"^PALLAS_ADMIN_PASSWORD: the file .* cannot be read"):
        find_admin_password(tmp_path)
    (tmp_path / "password").write_text("a word\n")
    assert find_admin_password(tmp_path) == "a word"


def test_a_bearer_is_read_from_the_option_then_the_environment_then_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_TOKEN", raising=False)
    assert find_token(None) is None
    (tmp_path / "token").write_text("a.file~s==\n")
    monkeypatch.setenv("PALLAS_TOKEN_FILE", str(tmp_path / "token"))
    assert find_token(None) == "a.file~s=="
    assert find_token("an-option+s/") == "an-option+s/"
    monkeypatch.delenv("PALLAS_TOKEN_FILE")
    monkeypatch.setenv("PALLAS_TOKEN", "a_variable")
    assert find_token(None) == "a_variable"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "déjà"])
def test_an_invalid_bearer_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(Refused, match=r"^--token: not a valid bearer token") as refusal:
        find_token(token)
    assert not token or token not in str(refusal.value)


def test_the_key_of_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_secret(tmp_path, "log-key")
    monkeypatch.setenv("PALLAS_LOG_KEY", "k" * 32)
    assert find_log_key(tmp_path) == LogKey("k" * 32)


def test_without_a_variable_the_key_is_the_one_that_the_stack_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_LOG_KEY", raising=False)
    kept = kept_secret(tmp_path, "log-key")
    assert find_log_key(tmp_path) == LogKey(kept)


def test_without_a_key_the_refusal_names_the_variable_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALLAS_LOG_KEY", raising=False)
    with pytest.raises(Refused, match="PALLAS_LOG_KEY") as refused:
        find_log_key(tmp_path)
    assert "log-key does not exist" in str(refused.value)
