"""Names of settings: those of the contracts win over those of Pallas."""

from pathlib import Path

import pytest

from pallas_contracts.errors import Rejected
from workspaces.settings import WorkspacesSettings


def test_the_names_of_the_contracts_are_read() -> None:
    settings = WorkspacesSettings.from_env(
        {"DAEDALUS_MCP_HEALTH_INTERVAL": "15", "DAEDALUS_RECONCILE_INTERVAL": "20", "SECRET_KEY": "x" * 32}
    )
    assert (settings.health_interval, settings.reconcile_interval) == (15, 20)
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == "x" * 32


def test_they_win_also_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("y" * 32)
    settings = WorkspacesSettings.from_env(
        {
            "DAEDALUS_MCP_HEALTH_INTERVAL": "15",
            "PALLAS_HEALTH_INTERVAL": "30",
            "SECRET_KEY_FILE": str(tmp_path / "key"),
            "PALLAS_SECRET_KEY": "x" * 32,
            "PALLAS_RECONCILE_INTERVAL": "40",
        }
    )
    assert (settings.health_interval, settings.reconcile_interval) == (15, 40)
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == "y" * 32


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DAEDALUS_MCP_HEALTH_INTERVAL", "0"),
        ("SECRET_KEY", "hunter2"),
        ("MNEMOSYNE_FERNET_KEY", "hunter2"),
        ("PALLAS_TEAMS_URL", "ftp://hunter2"),
        ("PALLAS_TEAMS_URL", "http://user:hunter2@x"),
        ("PALLAS_PUBLIC_URL", "pallas.example"),
        ("PALLAS_ADMIN_PASSWORD_HASH", "hunter2"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_that_was_given_and_not_repeated(variable: str, value: str) -> None:
    with pytest.raises(Rejected, match=rf"\b{variable}\b") as refused:
        WorkspacesSettings.from_env({variable: value})
    assert "hunter2" not in refused.value.message
