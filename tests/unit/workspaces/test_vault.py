"""The vault for team JWTs (auth contract, section 13.3), and what a JWT says about itself."""

from dataclasses import dataclass

import jwt
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr
from tests.requirements import requirement

from pallas_contracts.errors import PallasError, Rejected
from workspaces.mnemosyne.reading import jti_of
from workspaces.mnemosyne.vault import Vault

ONE, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()
SECRET = "a secret key with at least 32 characters"


@dataclass
class Keys:
    """The settings."""

    fernet_key: SecretStr | None = None
    secret_key: SecretStr | None = None


def vault(fernet: str | None = None, secret: str | None = None) -> Vault:
    """The vault of these settings."""
    return Vault.of(Keys(SecretStr(fernet) if fernet else None, SecretStr(secret) if secret else None))


@requirement("A-13.3.3")
def test_the_fernet_key_counts_and_otherwise_the_secret_key() -> None:
    assert Fernet(ONE).decrypt(vault(ONE, SECRET).seal("a JWT")).decode() == "a JWT"
    sealed = vault(secret=SECRET).seal("a JWT")
    assert "JWT" not in sealed
    assert vault(secret=SECRET).open(sealed) == "a JWT"
    assert vault(ONE, SECRET).open(sealed) == "a JWT"
    with pytest.raises(PallasError, match="a key that this service does not have"):
        vault(ONE).open(sealed)


def test_keys_can_be_replaced() -> None:
    old = vault(ONE).seal("a JWT")
    new = vault(f"{OTHER},{ONE}").reseal(old)
    assert vault(OTHER).open(new) == "a JWT"
    assert vault(f"{OTHER},{ONE}").reseal(new) == new


@pytest.mark.parametrize("secret", [None, "", "x" * 31])
def test_without_a_key_there_is_no_vault(secret: str | None) -> None:
    with pytest.raises(Rejected, match="MNEMOSYNE_FERNET_KEY, or SECRET_KEY") as refused:
        vault(secret=secret)
    assert "x" * 31 not in str(refused.value)


def test_the_jti_of_a_jwt_is_read_and_of_anything_else_is_none() -> None:
    assert jti_of(jwt.encode({"jti": "one"}, "k" * 32)) == "one"
    for other in ("", "a.b.c", "a.W10.c", "a.e30.c", jwt.encode({"jti": "1"}, "k" * 32).replace(".", "-")):
        assert jti_of(other) is None
