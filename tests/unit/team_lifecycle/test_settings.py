"""The settings of team-lifecycle: values that are refused or accepted."""

import pytest
from argon2 import PasswordHasher
from cryptography.fernet import Fernet

from pallas_contracts.errors import Rejected
from pallas_credentials.settings import keys_of
from team_lifecycle.settings import TeamLifecycleSettings

HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("x")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PALLAS_SERVICE_PASSWORD_HASH", "plain-password"),
        ("PALLAS_ADMIN_PASSWORD_HASH", "$argon2id$nonsense"),
        ("PALLAS_FERNET_KEYS", "not-a-fernet-key"),
        ("PALLAS_FERNET_KEYS", f"{'A' * 43}=,short"),
        ("PALLAS_POSTGRES_URL", "mysql://root:hunter2@db/x"),
        ("PALLAS_POSTGRES_URL", "hunter2"),
        ("PALLAS_JWT_ALGORITHM", "none"),
        ("PALLAS_POSTGRES_POOL", "0"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_not_shown(variable: str, value: str) -> None:
    with pytest.raises(Rejected, match=variable) as refused:
        TeamLifecycleSettings.from_env({variable: value})
    assert value not in refused.value.message
    assert "hunter2" not in refused.value.message


def test_good_values_are_accepted_and_secrets_are_not_printed() -> None:
    keys = f"{Fernet.generate_key().decode()}, {Fernet.generate_key().decode()}"
    settings = TeamLifecycleSettings.from_env(
        {
            "PALLAS_SERVICE_PASSWORD_HASH": HASH,
            "PALLAS_FERNET_KEYS": keys,
            "PALLAS_POSTGRES_URL": "postgres://u:pw@h/d",
        }
    )
    assert len(keys_of(settings.fernet_keys)) == 2
    assert not {HASH, keys, "pw@"} & {part for part in (HASH, keys, "pw@") if part in repr(settings)}
