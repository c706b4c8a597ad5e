"""Where the password of the account `admin` is looked for."""

from pathlib import Path

import pytest

from pallas_cli.kept_secrets import find_admin_password
from pallas_cli.refused import Refused
from pallas_cli.stack.data import kept_secret


def test_the_environment_comes_first_then_what_the_stack_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALLAS_ADMIN_PASSWORD", raising=False)
    with pytest.raises(Refused, match="admin-password is not there"):
        find_admin_password(tmp_path)
    kept = kept_secret(tmp_path, "admin-password")
    assert find_admin_password(tmp_path) == kept
    monkeypatch.setenv("PALLAS_ADMIN_PASSWORD", "another")
    assert find_admin_password(tmp_path) == "another"
