"""Where commands find passwords and bearers."""

from pathlib import Path

import pytest

from pallas_cli.kept_secrets import find_admin_password, find_token
from pallas_cli.refused import Refused
from pallas_cli.stack.data import kept_secret


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
