"""Signing keys, how they are sealed, and what they sign."""

import jwt
import pytest
from cryptography.fernet import Fernet

from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.keys import Seal, new_key, public_jwk, team_jwt

TEAM = "a3f1d5c0-0000-4000-8000-000000000000"
OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_an_hs256_secret_is_256_bits_in_hex_and_signs_by_its_bytes() -> None:
    key = new_key("HS256")
    assert len(bytes.fromhex(key.secret)) == 32
    token = team_jwt(TEAM, "a jti", utc_now(), kid="k", algorithm="HS256", secret=key.secret)
    claims = jwt.decode(token, bytes.fromhex(key.secret), algorithms=["HS256"], audience="mnemosyne")
    assert (claims["sub"], claims["jti"]) == (f"team:{TEAM}", "a jti")


def test_an_eddsa_signature_is_verified_with_the_published_key() -> None:
    key = new_key("EdDSA")
    token = team_jwt(TEAM, "a jti", utc_now(), kid="k", algorithm="EdDSA", secret=key.secret)
    assert key.public is not None
    published = jwt.PyJWKSet.from_dict({"keys": [public_jwk("k", key.public)]})["k"]
    assert jwt.decode(token, published, algorithms=["EdDSA"], audience="mnemosyne")["typ"] == "team"
    assert "d" not in public_jwk("k", key.public)


def test_a_secret_sealed_with_an_older_key_opens_and_is_resealed_with_the_first() -> None:
    sealed = Seal([OLD]).close("secret")
    both = Seal([NEW, OLD])
    assert both.open(sealed) == "secret"
    resealed = both.reseal(sealed)
    assert Seal([NEW]).open(resealed) == "secret"
    with pytest.raises(PallasError, match="PALLAS_FERNET_KEYS"):
        Seal([NEW]).open(sealed)
    with pytest.raises(PallasError, match="PALLAS_FERNET_KEYS"):
        Seal([NEW]).reseal(sealed)


def test_a_signing_key_does_not_print_its_secret() -> None:
    key = new_key("HS256")
    assert key.secret not in repr(key)
